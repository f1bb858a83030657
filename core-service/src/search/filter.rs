//! The filter of a search, and the rows of a list by likes.

use super::Cancellation;
use crate::domain::{dataset::Dataset, window::Floor};

#[derive(Clone, Debug)]
pub struct SearchFilter {
    /// A thesis's author, or the profile itself.
    pub profile: Option<String>,
    /// A thesis's token, or the token itself, is one of these.
    pub tokens: Option<Vec<String>>,
    /// The chain of a thesis or token.
    pub chain: Option<String>,
    /// Theses are not older than this.
    pub floor: Floor,
    /// Theses are not newer than this, in unix milliseconds.
    pub to: i64,
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
    pub dataset: Dataset,
    pub id: String,
    /// Its likes when it was indexed.
    pub likes: Option<i64>,
    /// Time of creation, in unix milliseconds.
    pub created_at: i64,
}
