//! Streams over HTTP. `sse` opens streams of Server-Sent Events, `sse_events` writes the events of the stream engine as such
//! events, and `chunked` sends them over HTTP/1. `websocket` opens WebSockets, and `socket` serves one for a `client`,
//! with the messages of `message` and the reasons of `closing`.

mod chunked;
mod client;
mod closing;
mod message;
mod socket;
mod sse;
mod sse_events;
#[cfg(test)]
mod tests;
mod websocket;

use std::time::Duration;

use http::header::AUTHORIZATION;
use thesis_proto::error::{ApiError, ErrorCode};

use crate::{
    answer::Failure,
    call::Call,
    input::{Kind, Param},
    route::Route,
};

/// Longest time in which a client that is far behind takes nothing.
const SLOW_READER_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of events behind from which on a client may be too slow.
const FAR_BEHIND: u64 = 1_000;
/// Longest time to tell a client that its stream ends.
const GOODBYE: Duration = Duration::from_secs(5);

/// The ticket of a stream, in place of a key.
const TICKET: Param =
    Param::new("ticket", Kind::Text(1, 200), "A ticket of `POST /v1/stream/tickets`, in place of a key");

const FROM: Param =
    Param::new("from", Kind::Time, "Replays past events from this time on, which lies within the history window");

const TO: Param =
    Param::new("to", Kind::Time, "Ends the replay after the events of this time; without it the stream continues live");

const SPEED: Param = Param::new(
    "speed",
    Kind::Speed,
    "Spaces the replayed events by their `created_at` divided by this: 0.1 to 3600, or `max` for no pauses",
);

/// The routes of streams.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = sse::routes();
    routes.extend(websocket::routes());
    routes
}

/// Checks that a request shows a ticket or a key, not both. Nobody judges either when both are there.
fn one_credential(call: &Call, ticket: Option<&String>) -> Result<(), Failure> {
    if ticket.is_some() && call.head.headers.contains_key(AUTHORIZATION) {
        let message = "a stream is opened with a ticket or with a key, not with both; leave one out";
        return Err(ApiError::new(ErrorCode::InvalidRequest, message).into());
    }
    Ok(())
}
