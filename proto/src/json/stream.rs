//! What streams need besides events.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Time, constant, part};
use crate::v1;

/// Lets a browser open one stream with `?ticket=`.
#[derive(Serialize, ToSchema)]
pub struct StreamTicket<'a> {
    #[schema(schema_with = constant::stream_ticket)]
    object: &'static str,
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

/// What a resumed stream could not replay.
#[derive(Debug, Serialize, ToSchema)]
pub struct StreamGap<'a> {
    first_cursor: &'a str,
    last_cursor: &'a str,
    /// Lists what was skipped, with the same filters.
    path: &'a str,
}

impl<'a> From<&'a v1::StreamGap> for StreamGap<'a> {
    fn from(gap: &'a v1::StreamGap) -> Self {
        Self { first_cursor: &gap.first_cursor, last_cursor: &gap.last_cursor, path: &gap.path }
    }
}
