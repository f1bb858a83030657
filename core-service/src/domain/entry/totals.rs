//! The running totals that entries carry, and the number of theses that makes an author prolific.

use serde::{Deserialize, Serialize};

/// An author is prolific once a dataset has had more theses of theirs than this, deleted ones too. Lists by such an
/// author and a token or chain have indexes of their own; the theses of others are few enough to filter. It is low in
/// this crate's unit tests, so all of them use both. The system tests have the real number.
pub const PROLIFIC_AFTER: u8 = if cfg!(test) { 2 } else { 128 };

/// Running totals of a token in one dataset, as of the entry that carries them. The writer knows the state at the head,
/// so the counts in the log are exact, and projecting an entry twice changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Totals {
    /// Theses on the token, deleted ones not counted.
    #[prost(int64, tag = "1")]
    pub theses: i64,
    /// Their authors.
    #[prost(int64, tag = "2")]
    pub authors: i64,
    /// Theses of this entry's author among them.
    #[prost(int64, tag = "3")]
    pub of_author: i64,
    /// The totals of the whole dataset, in a project's dataset alone: others have no limit.
    #[prost(message, optional, tag = "5")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_dataset: Option<DatasetTotals>,
    /// Theses of this entry's author that the dataset ever had, deleted ones too. It stops at
    /// [`Totals::MAX_BY_AUTHOR`].
    #[prost(int64, tag = "6")]
    pub by_author: i64,
}

impl Totals {
    /// Two more than [`PROLIFIC_AFTER`], so that one creation alone has the first number beyond it.
    pub const MAX_BY_AUTHOR: i64 = PROLIFIC_AFTER as i64 + 2;

    /// True if this entry's author is prolific.
    #[must_use]
    pub fn is_prolific(&self) -> bool {
        self.by_author > i64::from(PROLIFIC_AFTER)
    }
}

/// Running totals of a whole dataset.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DatasetTotals {
    /// Theses on all tokens, deleted ones not counted.
    #[prost(int64, tag = "1")]
    pub theses: i64,
    /// Profiles that theses introduced. They stay when their theses are deleted.
    #[prost(int64, tag = "2")]
    pub profiles: i64,
    /// Tokens that theses introduced. They stay too.
    #[prost(int64, tag = "3")]
    pub tokens: i64,
}
