//! Theses.

use serde::Serialize;
use utoipa::ToSchema;

use super::{ProfileRef, Source, Time, TokenRef, constant, part};
use crate::v1;

/// A short post by a profile about a token.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Thesis<'a> {
    #[schema(schema_with = constant::thesis)]
    object: &'static str,
    /// Prefix `th_`.
    id: &'a str,
    /// The author.
    profile: ProfileRef<'a>,
    /// The token that the thesis is about.
    token: TokenRef<'a>,
    /// What the author wrote.
    text: &'a str,
    /// Always null: the upstream has no link to a single thesis.
    #[schema(required, format = "uri")]
    public_url: Option<&'a str>,
    /// Likes upstream; null when unknown.
    #[schema(required)]
    likes: Option<i64>,
    /// Replies upstream; null when unknown.
    #[schema(required)]
    replies: Option<i64>,
    /// When the thesis was posted.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When the service last changed the thesis.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Time,
    /// Where it came from.
    source: Source,
    /// True for live data, false for test data.
    livemode: bool,
}

impl<'a> From<&'a v1::Thesis> for Thesis<'a> {
    fn from(thesis: &'a v1::Thesis) -> Self {
        Self {
            object: "thesis",
            id: &thesis.id,
            profile: part(&thesis.profile),
            token: part(&thesis.token),
            text: &thesis.text,
            public_url: thesis.public_url.as_deref(),
            likes: thesis.likes,
            replies: thesis.replies,
            created_at: part(&thesis.created_at),
            updated_at: part(&thesis.updated_at),
            source: Source::from(&thesis.source),
            livemode: thesis.livemode,
        }
    }
}
