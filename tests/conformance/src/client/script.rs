//! The connections that a client is served.

use std::time::Duration;

use serde_json::{Value, json};

/// The key that the client is given.
pub(super) const KEY: &str = "svc_test_StreamConformance0123456789ABCDEFGHIJ";
/// The reconnect wait that the stream asks for. A client that ignores it comes back earlier, on a busy machine too.
pub(super) const RETRY: Duration = Duration::from_secs(1);
/// The wait that the refusal in between asks for.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(2);
/// The id of an event that breaks off in its middle.
pub(super) const HALF: &str = "evt_half";
/// The event whose arrival ends the script of breaks.
pub(super) const LAST: u32 = 12;
/// The path that lists the events of the gap.
pub(super) const GAP_PATH: &str =
    "/v1/events?types=thesis.created&created_after=2026-11-23T20:43:33.440Z&created_before=2026-11-23T20:43:35.364Z";

/// The response to one opening of the stream.
pub(super) struct Connection {
    pub(super) status: u16,
    /// Sent one after the other.
    pub(super) pieces: Vec<Vec<u8>>,
    /// True if it stays open until the program is killed.
    pub(super) stays: bool,
}

impl Connection {
    /// A stream that ends after its frames.
    fn of(frames: &[String]) -> Self {
        let pieces = frames.iter().map(|frame| frame.clone().into_bytes()).collect();
        Self { status: 200, pieces, stays: false }
    }

    /// An error in place of a stream.
    fn refusal(status: u16, code: &str) -> Self {
        let error = json!({"code": code, "type": "none", "message": "part of the script", "request_id": "req_script"});
        Self { status, pieces: vec![json!({"error": error}).to_string().into_bytes()], stays: false }
    }
}

/// The id of an event.
pub(super) fn event_id(number: u32) -> String {
    format!("evt_{number:012}")
}

/// The cursor after an event.
pub(super) fn cursor(number: u32) -> String {
    format!("AVc{number:05}")
}

/// An event.
pub(super) fn event(number: u32, kind: &str) -> Value {
    let at = "2026-11-23T20:43:33.440Z";
    json!({
        "object": "event",
        "id": event_id(number),
        "type": kind,
        "created_at": at,
        "livemode": false,
        "source": "sandbox",
        "data": {
            "thesis_id": format!("th_{number:012}"),
            "profile": {"id": "fp_1", "handle": "@writer", "display_name": null, "avatar_url": null},
            "token": {"id": "tk_1", "symbol": "$RUN", "name": null, "chain": "sandbox", "address": "test1"},
            "text": "line\n and \u{1f680}",
            "created_at": at,
            "public_url": null,
        },
    })
}

fn frame(id: u32, kind: &str, data: &Value) -> String {
    format!("id: {}\nevent: {kind}\ndata: {data}\n\n", cursor(id))
}

fn thesis(number: u32) -> String {
    frame(number, "thesis.created", &event(number, "thesis.created"))
}

fn stream_cursor(number: u32) -> String {
    frame(number, "stream.cursor", &json!({"object": "stream_cursor", "cursor": cursor(number)}))
}

/// Breaks of every kind. The events 5 and 6 do not match, and 7 to 9 are left out by a gap.
pub(super) fn breaks() -> Vec<Connection> {
    let retry = format!("retry: {}\n\n", RETRY.as_millis());
    let unknown = "event: stream.news\ndata: {\"object\":\"stream_news\"}\n\n: a comment\n\n".to_owned();
    let half = format!("id: {}\nevent: thesis.created\ndata: {{\"object\":\"event\",\"id\":\"{HALF}\",\"ty", cursor(3));
    let mut first = Connection::of(&[stream_cursor(0), retry, thesis(1)]);
    first.pieces.extend(thesis(2).bytes().map(|byte| vec![byte]));
    first.pieces.extend([unknown.into_bytes(), half.into_bytes()]);
    let gap = json!({"first_cursor": cursor(6), "last_cursor": cursor(9), "skipped": 3, "path": GAP_PATH});
    let last = [stream_cursor(10), frame(11, "thesis.liked", &event(11, "thesis.liked")), thesis(LAST)];
    vec![
        first,
        Connection::of(&[stream_cursor(2), thesis(2), thesis(3), thesis(4), format!(": ping\n{}", stream_cursor(6))]),
        Connection::refusal(503, "SERVICE_UNAVAILABLE"),
        Connection::of(&[stream_cursor(6), frame(9, "stream.gap", &gap), thesis(10)]),
        Connection { stays: true, ..Connection::of(&last) },
    ]
}

/// A key that is revoked while its stream is open.
pub(super) fn refusal() -> Vec<Connection> {
    vec![Connection::of(&[stream_cursor(0), thesis(1)]), Connection::refusal(401, "API_KEY_REVOKED")]
}
