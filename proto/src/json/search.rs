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
    query: &'a str,
    theses: Vec<Thesis<'a>>,
    profiles: Vec<Profile<'a>>,
    tokens: Vec<Token<'a>>,
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
