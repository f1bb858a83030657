//! Search results.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Profile, Thesis, Token, constant, each};
use crate::v1;

/// What a search found.
#[derive(Debug, Serialize, ToSchema)]
pub struct SearchResult<'a> {
    #[schema(schema_with = constant::search_result)]
    object: &'static str,
    /// The query as it was given.
    query: &'a str,
    /// Theses that match.
    theses: Vec<Thesis<'a>>,
    /// Profiles that match.
    profiles: Vec<Profile<'a>>,
    /// Tokens that match.
    tokens: Vec<Token<'a>>,
    /// True for live data, false for test data.
    livemode: bool,
}

impl<'a> From<&'a v1::SearchResult> for SearchResult<'a> {
    fn from(result: &'a v1::SearchResult) -> Self {
        Self {
            object: "search_result",
            query: &result.query,
            theses: each(&result.theses),
            profiles: each(&result.profiles),
            tokens: each(&result.tokens),
            livemode: result.livemode,
        }
    }
}
