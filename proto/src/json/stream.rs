//! The parts of streams besides events.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Time, constant, part};
use crate::v1;

/// Lets a browser open one stream with `?ticket=`.
#[derive(Serialize, ToSchema)]
pub struct StreamTicket<'a> {
    #[schema(schema_with = constant::stream_ticket)]
    object: &'static str,
    /// The ticket, for the parameter `ticket` of a stream. Keep it as secret as a key.
    ticket: &'a str,
    /// The stream must be opened before.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Time,
}

impl<'a> From<&'a v1::StreamTicket> for StreamTicket<'a> {
    fn from(ticket: &'a v1::StreamTicket) -> Self {
        Self { object: "stream_ticket", ticket: &ticket.ticket, expires_at: part(&ticket.expires_at) }
    }
}

/// What a resumed stream could not replay: the matching events after `first_cursor`, up to `last_cursor`.
#[derive(Debug, Serialize, ToSchema)]
pub struct StreamGap<'a> {
    /// Position before the first event that was skipped: the cursor that the stream was resumed with.
    first_cursor: &'a str,
    /// Position after the last event that was skipped.
    last_cursor: &'a str,
    /// Matching events that were not replayed; null beyond 10,000.
    #[schema(required)]
    skipped: Option<i64>,
    /// Lists what was skipped, with the same filters.
    path: &'a str,
}

impl<'a> From<&'a v1::StreamGap> for StreamGap<'a> {
    fn from(gap: &'a v1::StreamGap) -> Self {
        let (first_cursor, last_cursor) = (&gap.first_cursor, &gap.last_cursor);
        Self { first_cursor, last_cursor, skipped: gap.skipped, path: &gap.path }
    }
}

/// Where a stream stands, told at its beginning and every 15 seconds.
#[derive(Debug, Serialize, ToSchema)]
pub struct StreamCursor<'a> {
    #[schema(schema_with = constant::stream_cursor)]
    object: &'static str,
    /// The position, with which a stream is resumed.
    cursor: &'a str,
}

impl<'a> From<&'a str> for StreamCursor<'a> {
    fn from(cursor: &'a str) -> Self {
        Self { object: "stream_cursor", cursor }
    }
}
