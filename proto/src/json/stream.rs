//! The positions that streams send.

use serde::Serialize;
use utoipa::{ToSchema, openapi::Object};

use super::constant;

/// The position of a stream, sent at its beginning and every 15 seconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct StreamCursor<'a> {
    #[schema(schema_with = any_object)]
    object: &'static str,
    /// The position, with which a stream is resumed.
    cursor: &'a str,
}

impl<'a> From<&'a str> for StreamCursor<'a> {
    fn from(cursor: &'a str) -> Self {
        Self { object: "stream_cursor", cursor }
    }
}

fn any_object() -> Object {
    constant("stream_cursor")
}
