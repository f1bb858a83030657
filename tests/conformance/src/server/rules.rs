//! The rules of servers.
//!
//! To add one, write its check in a file beside this one and a row here, then let the test write the page.

use futures::future::LocalBoxFuture;

use super::{
    every_transport as every, limits, past, replay, sse_only as sse,
    stream::Transport::{self, Sse, WebSocket},
    target::Target,
    tickets, websocket_only as websocket,
};
use crate::verdict::Verdict;

type Check = for<'a> fn(&'a Target, Transport) -> LocalBoxFuture<'a, Verdict>;

/// A rule, which is judged over each of its transports.
pub struct Rule {
    /// Its name.
    pub name: &'static str,
    /// The transports that it is about.
    pub transports: &'static [Transport],
    /// The rule in words.
    pub text: &'static str,
    check: Check,
}

impl Rule {
    /// Judges a server.
    pub(super) fn check<'a>(&self, target: &'a Target, transport: Transport) -> LocalBoxFuture<'a, Verdict> {
        (self.check)(target, transport)
    }
}

macro_rules! rules {
    ($($name:literal $transports:expr, $check:path, $text:literal;)+) => {
        &[$(Rule {
            name: $name,
            transports: $transports,
            text: $text,
            check: |target, transport| Box::pin($check(target, transport)),
        }),+]
    };
}

/// The rules that take half a minute at most, when they are judged at the same time.
pub const RULES: &[Rule] = rules! {
    "first-cursor" Transport::ALL, every::first_cursor,
        "A stream opened without a cursor sends one before anything else: SSE an event `stream.cursor`, WebSocket in \
         `subscribed`, gRPC a heartbeat.";
    "quiet-resume" Transport::ALL, every::quiet_resume,
        "A stream that has sent no event resumes with its first cursor, and sends every event since.";
    "exact-resume" Transport::ALL, every::exact_resume,
        "A stream opened with the cursor of an event sends all matching events after it, once, in their order, with \
         the same contents, and then new ones.";
    "shared-cursor" Transport::ALL, every::shared_cursor,
        "A cursor of this transport resumes a stream of every transport.";
    "other-filters" Transport::ALL, every::other_filters,
        "A cursor is a position, whatever the filters were: it resumes a stream with other filters.";
    "invalid-cursor" Transport::ALL, every::invalid_cursor,
        "A cursor that the server never issued is 400 `INVALID_CURSOR`, over gRPC `INVALID_ARGUMENT` with this reason.";
    "other-view" Transport::ALL, limits::other_view,
        "A cursor is valid for keys that read the same data only: for a key of another project it is `INVALID_CURSOR`.";
    "filters" Transport::ALL, every::filters,
        "An event must match every filter that is given, by any one of its values. No other event arrives.";
    "same-event" Transport::ALL, every::same_event,
        "An event is the same as under `GET /v1/events/{id}`, and whoever has it can read its thesis at once.";
    "heartbeat" Transport::ALL, every::heartbeat,
        "Every 15 seconds a quiet stream sends a cursor, which has moved past the events that do not match. SSE sends \
         the comment `: ping` with it.";
    "gap" Transport::ALL, replay::gap,
        "If more than 1,000 matching events were missed, the stream sends the cursor it was resumed with, then a gap, \
         then the newest 1,000 in their order. The gap begins at that cursor, its count is exact up to 10,000, and its \
         path lists the events left out.";
    "replay-limit" Transport::ALL, replay::replay_limit,
        "If exactly 1,000 were missed, say after the gap's last cursor, all of them are replayed, without a gap.";
    "gap-of-matches" Transport::ALL, replay::gap_of_matches,
        "Events that do not match the filters never cause a gap.";
    "replay" Transport::ALL, past::replay,
        "With `from` a stream sends all matching events since that time, with the same contents, and then new ones. A \
         cursor beside it wins.";
    "replay-end" Transport::ALL, past::replay_end,
        "With `to` a replay ends after the last event up to that time, with a cursor: SSE by `stream.end`, WebSocket \
         by `ended`, gRPC by the end of the call. A stream opened after the end with this cursor sends no event, and \
         is 204 over SSE.";
    "replay-refused" Transport::ALL, past::replay_refused,
        "A replay from before the history window is 403 `HISTORY_LIMIT`. One from the future, or that ends before it \
         begins, is 422 `VALIDATION_FAILED`.";
    "bad-key" Transport::ALL, every::bad_key,
        "An unknown key is 401 `INVALID_API_KEY`, over gRPC `UNAUTHENTICATED` with this reason.";
    "missing-scope" Transport::ALL, every::missing_scope,
        "A key without the scope `streams:read` is 403 `INSUFFICIENT_SCOPE`, over gRPC `PERMISSION_DENIED` with this \
         reason.";
    "stream-limit" Transport::ALL, limits::stream_limit,
        "One stream more than the plan allows, over all transports together, is 429 `STREAM_LIMIT_REACHED`, over gRPC \
         `RESOURCE_EXHAUSTED` with this reason. A closed stream's place is free again.";
    "sse-head" &[Sse], sse::head,
        "The response is `text/event-stream`, and proxies must not store or change it (`no-store`, `no-transform`).";
    "sse-frames" &[Sse], sse::frames,
        "A frame has one line each of `id` (the cursor), `event` (the type) and `data` (the event in JSON). `retry` is \
         500 to 5,000 milliseconds.";
    "last-event-id" &[Sse], sse::last_event_id,
        "`Last-Event-ID` takes precedence over `from_cursor`. An empty one counts as none.";
    "ticket-one-connection" &[Sse, WebSocket], tickets::one_connection,
        "A ticket opens a stream without a key. Opening it again ends the old connection within 2 seconds: SSE by its \
         end, WebSocket with 4505.";
    "ticket-and-key" &[Sse, WebSocket], tickets::ticket_and_key,
        "A ticket and an `Authorization` header together are 400 `INVALID_REQUEST`.";
    "bad-ticket" &[Sse, WebSocket], tickets::bad_ticket,
        "An unknown ticket is 401 `INVALID_API_KEY`.";
    "handshake" &[WebSocket], websocket::handshake,
        "A request without an upgrade is 400 `INVALID_REQUEST`. A version other than 13 is 426, which names 13.";
    "welcome" &[WebSocket], websocket::welcome,
        "`welcome`, with `connection_id` and `heartbeat_s` 15, follows authentication by header or by a first message \
         `auth`.";
    "subscriptions" &[WebSocket], websocket::subscriptions,
        "A connection has up to 16 subscriptions. An event arrives once for each that it matches, and none arrives \
         after `unsubscribed`.";
    "wrong-requests" &[WebSocket], websocket::wrong_requests,
        "A wrong request, say with a `sub` in use, gets `error` with its `rid`, and the connection lives.";
    "close-4500" &[WebSocket], websocket::close_4500,
        "A first message with an unknown key closes with 4500.";
    "close-4501" &[WebSocket], websocket::close_4501,
        "A text that is no JSON object closes with 4501, and so does another first message than `auth`.";
    "close-4502" &[WebSocket], websocket::close_4502,
        "A connection that is not authenticated within 10 seconds closes with 4502.";
    "close-4503" &[WebSocket], websocket::close_4503,
        "A first message with a key without `streams:read` closes with 4503.";
    "close-4504" &[WebSocket], limits::close_4504,
        "A first message of a project whose streams are all open closes with 4504.";
    "close-rfc" &[WebSocket], websocket::close_of_rfc,
        "A binary message closes with 1003, one that is no UTF-8 with 1007, one over 64 KiB with 1009.";
};

/// The rules that take longer.
pub const LONG_RULES: &[Rule] = rules! {
    "ticket-expiry" &[Sse, WebSocket], tickets::ticket_expiry,
        "A ticket that was not used within 60 seconds opens no stream.";
    "close-4012" &[WebSocket], websocket::close_4012,
        "A connection without any frame from the client for 45 seconds closes with 4012.";
};
