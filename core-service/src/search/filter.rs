//! What a search is narrowed to, and the rows of a list by likes.

use super::Cancellation;
use crate::domain::{dataset::Dataset, window::Floor};

/// Which rows a search is narrowed to, and what ends it.
#[derive(Clone, Debug)]
pub struct SearchFilter {
    /// A thesis's author, or the profile itself.
    pub profile: Option<String>,
    /// A thesis's token, or the token itself: one of these.
    pub tokens: Option<Vec<String>>,
    /// The chain of a thesis or token.
    pub chain: Option<String>,
    /// A thesis is not older than this.
    pub floor: Floor,
    /// A thesis was not created after this, in unix milliseconds.
    pub to: i64,
    /// Ends the search before it has found all.
    pub cancellation: Cancellation,
}

impl Default for SearchFilter {
    fn default() -> Self {
        Self {
            profile: None,
            tokens: None,
            chain: None,
            floor: Floor::NONE,
            to: i64::MAX,
            cancellation: Cancellation::default(),
        }
    }
}

/// A thesis in the order of likes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedThesis {
    /// Its dataset.
    pub dataset: Dataset,
    /// Its id.
    pub id: String,
    /// Its likes when it was indexed.
    pub likes: Option<i64>,
    /// When it was created, in unix milliseconds.
    pub created_at: i64,
}
