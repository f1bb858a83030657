//! An open stream as pieces of Server-Sent Events.

use std::task::{Context as Task, Poll, ready};

use thesis_proto::{cursor::CursorEncoder, json, names::event_type_name, v1};
use thesis_streams::{EndReason, HEARTBEAT, OpenStream, StreamStep, Subscription};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::{FAR_BEHIND, SLOW_READER_TIMEOUT};

/// The stream writes events in pieces of about this size in bytes.
const PIECE: usize = 16 * 1024;

pub(super) struct EventPieces {
    /// None after the stream has ended.
    stream: Option<OpenStream>,
    subscription: Subscription,
    first: Option<Box<[u8]>>,
    ping: Interval,
    reconnect_ms: u32,
}

impl EventPieces {
    /// The pieces of a new stream that starts at `begin`.
    pub(super) fn new(
        stream: OpenStream,
        subscription: Subscription,
        begin: &v1::OpenResponse,
        reconnect_ms: u32,
    ) -> Self {
        let first = Some(first_piece(begin, reconnect_ms));
        Self { stream: Some(stream), subscription, first, ping: pings(), reconnect_ms }
    }

    /// Appends the next piece; false after the stream has ended. It checks first whether the stream must end, so that
    /// slow clients do not delay the end.
    pub(super) fn poll_piece(&mut self, task: &mut Task<'_>, piece: &mut Vec<u8>) -> Poll<bool> {
        loop {
            let Some(stream) = &self.stream else { return Poll::Ready(false) };
            let step = stream.poll_step(&mut self.subscription, &mut self.ping, task);
            if let Poll::Ready(StreamStep::End(end)) = step {
                self.stream = None;
                if end == EndReason::Reconnect {
                    piece.extend_from_slice(format!("retry: {}\n\n", self.reconnect_ms).as_bytes());
                }
                return Poll::Ready(end == EndReason::Reconnect);
            }
            if let Some(first) = self.first.take() {
                piece.extend_from_slice(&first);
                return Poll::Ready(true);
            }
            let step = ready!(step);
            let before = piece.len();
            // Also needed before a cursor: reading moves the cursor past events that do not match.
            self.subscription.read(|cursor, entry| {
                write_event(piece, cursor, event_type_name(entry.keys.event_type), &entry.body);
                piece.len() < PIECE
            });
            if self.subscription.is_complete() {
                write_cursor(piece, "stream.end", &self.subscription.cursor());
                stream.ends_for("complete");
                self.stream = None;
                return Poll::Ready(true);
            }
            if step == StreamStep::Heartbeat {
                piece.extend_from_slice(b": ping\n");
                write_cursor(piece, "stream.cursor", &self.subscription.cursor());
            }
            if piece.len() > before {
                return Poll::Ready(true);
            }
        }
    }

    /// True if the client must not receive more of a piece. Otherwise the task wakes when that changes.
    pub(super) fn is_withdrawn(&self, task: &Task<'_>) -> bool {
        self.stream.as_ref().is_some_and(|stream| {
            stream.register(task);
            stream.ended().is_some_and(|end| end != EndReason::Reconnect)
        })
    }

    /// True if the client reads nothing and is far behind, so that the edge disconnects it. Otherwise the task wakes
    /// for the next check.
    pub(super) fn is_too_slow(&mut self, task: &mut Task<'_>, blocked_since: Option<Instant>) -> bool {
        // A ping would only wait too.
        while self.ping.poll_tick(task).is_ready() {}
        let is_too_slow = blocked_since.is_some_and(|since| since.elapsed() >= SLOW_READER_TIMEOUT)
            && self.subscription.behind() > FAR_BEHIND;
        if is_too_slow && let Some(stream) = &self.stream {
            stream.ends_for("too_slow");
        }
        is_too_slow
    }
}

fn pings() -> Interval {
    let mut pings = interval_at(Instant::now() + HEARTBEAT, HEARTBEAT);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// The first piece: a cursor to resume with, and the gap of missed events that are not replayed.
fn first_piece(begin: &v1::OpenResponse, reconnect_ms: u32) -> Box<[u8]> {
    let view: Vec<String> = begin.positions.iter().map(|place| place.dataset.clone()).collect();
    let positions: Vec<u64> = begin.positions.iter().map(|place| place.position).collect();
    let cursor = CursorEncoder::new(&view).encode(&positions);
    let (first, last) = match &begin.gap {
        Some(gap) => (&gap.first_cursor, &gap.last_cursor),
        None => (&cursor, &cursor),
    };
    let mut piece = Vec::new();
    write_cursor(&mut piece, "stream.cursor", first);
    piece.truncate(piece.len() - 1);
    piece.extend_from_slice(format!("retry: {reconnect_ms}\n\n").as_bytes());
    if let Some(gap) = &begin.gap {
        let data = serde_json::to_vec(&json::StreamGap::from(gap)).expect("texts always serialise");
        write_event(&mut piece, last, "stream.gap", &data);
    }
    piece.into()
}

/// Writes the stream's cursor as an event of a separate type. It has data, because clients do not store the id of an
/// event without data. Listeners for messages do not receive this type.
fn write_cursor(piece: &mut Vec<u8>, kind: &str, cursor: &str) {
    let data = serde_json::to_vec(&json::StreamCursor::from(cursor)).expect("texts always serialise");
    write_event(piece, cursor, kind, &data);
}

fn write_event(piece: &mut Vec<u8>, cursor: &str, kind: &str, data: &[u8]) {
    piece.reserve(cursor.len() + kind.len() + data.len() + 24);
    let parts: [&[u8]; 7] = [b"id: ", cursor.as_bytes(), b"\nevent: ", kind.as_bytes(), b"\ndata: ", data, b"\n\n"];
    for part in parts {
        piece.extend_from_slice(part);
    }
}
