//! `GET /v1/events/stream`: Server-Sent Events.

use std::{convert::Infallible, ops::RangeInclusive, time::Duration};

use bytes::Bytes;
use futures::{TryStreamExt as _, stream::unfold};
use http::{
    HeaderValue, Method, Response,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Either, StreamBody};
use hyper::body::Frame;
use thesis_proto::{
    cursor::CursorEncoder,
    error::{ApiError, ErrorCode},
    filter::CompiledFilter,
    json,
    v1::{self, open_response::Message},
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::{
    feed::Wanted,
    subscription::{Step, Subscription},
};
use crate::{
    answer::{Answer, Body, Failure, copy_headers},
    call::Call,
    context::Context,
    input::{Kind, Param},
    route::Route,
};

const PING: Duration = Duration::from_secs(15);
/// Frames are written in pieces of about this size.
const PIECE: usize = 16 * 1024;
/// Shortest and longest time that a client is told to wait before it opens a stream again.
const RECONNECT_MS: RangeInclusive<u32> = 500..=5_000;

const QUERY: &[Param] = &[
    Param::TYPES,
    Param::TOKENS,
    Param::HANDLES,
    Param::CHAINS,
    Param::new("from_cursor", Kind::Text(0, 512), "Resumes after this cursor, the `id` of an event's frame"),
];

const HEADERS: &[Param] =
    &[Param::new("Last-Event-ID", Kind::Text(0, 512), "Resumes after this cursor; wins over `from_cursor`")];

/// The route of the stream.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        Route::new(Method::GET, "/v1/events/stream", "StreamService/Open", |edge, call| Box::pin(open(edge, call)))
            .named("streamEvents", "Events", "Streams events as they happen, as Server-Sent Events.")
            .query(QUERY)
            .headers(HEADERS)
            .answers_events()
            .fails(&[404]),
    ]
}

async fn open(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let from_cursor = query.text("from_cursor");
    let request = v1::OpenRequest {
        types: query.event_types("types"),
        filters: query.filters(),
        cursor: last_event_id(call)?.or(from_cursor),
    };
    query.finish(call);
    let types: Vec<_> = request.types().collect();
    let filter = CompiledFilter::new(&types, request.filters.as_ref());
    let wanted = Wanted { types: request.types.clone(), filters: request.filters.clone() };

    let (told, mut control, _) = edge.core.streams.open(call.request(request)).await?.into_parts();
    // The positions are fixed with the first message; the head must not be sent before it.
    let begin = match control.try_next().await?.and_then(|first| first.message) {
        Some(Message::Begin(begin)) => begin,
        _ => return Err(ApiError::unavailable().into()),
    };
    // Core has accepted the same filter.
    let filter = filter.map_err(|_| Failure::incomplete())?;
    let reconnect_ms = reconnect_ms(edge);
    let first = first_piece(&begin, reconnect_ms);
    let connection = Connection {
        subscription: Some(Subscription::new(begin, control, filter, wanted, &edge.feeds)),
        first: Some(first),
        ping: pings(),
        reconnect_ms,
        shutdown: edge.shutdown.clone(),
    };
    let pieces = unfold(connection, |mut connection| async move {
        let piece = connection.next().await?;
        Some((Ok::<_, Infallible>(Frame::data(piece)), connection))
    });
    let mut response: Response<Body> = Response::new(Either::Right(StreamBody::new(pieces).boxed_unsync()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    copy_headers(&told, headers);
    Ok(response)
}

/// `Last-Event-ID`. Clients that have seen no event send an empty one, which counts as none.
fn last_event_id(call: &Call) -> Result<Option<String>, Failure> {
    let mut values = call.head.headers.get_all("last-event-id").iter().filter(|value| !value.is_empty());
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let unreadable = || Failure::shape(ErrorCode::InvalidRequest, "Last-Event-ID must be one cursor");
    text.map(|text| Some(text.to_owned())).ok_or_else(unreadable)
}

fn pings() -> Interval {
    let mut pings = interval_at(Instant::now() + PING, PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings
}

/// Milliseconds until this client opens a stream again: random, so that not all clients come at once.
fn reconnect_ms(edge: &Context) -> u32 {
    let mut random = [0; 4];
    edge.ids.fill(&mut random);
    RECONNECT_MS.start() + u32::from_le_bytes(random) % (RECONNECT_MS.end() - RECONNECT_MS.start() + 1)
}

/// The piece right after the head: a cursor to resume with, and the gap of missed events that are not replayed.
fn first_piece(begin: &v1::StreamBegin, reconnect_ms: u32) -> Bytes {
    let view: Vec<String> = begin.positions.iter().map(|place| place.dataset.clone()).collect();
    let positions: Vec<u64> = begin.positions.iter().map(|place| place.position).collect();
    let cursor = CursorEncoder::new(&view).encode(&positions);
    let (first, last) = match &begin.gap {
        Some(gap) => (&gap.first_cursor, &gap.last_cursor),
        None => (&cursor, &cursor),
    };
    let mut piece = Vec::new();
    write_cursor(&mut piece, first);
    piece.truncate(piece.len() - 1);
    piece.extend_from_slice(format!("retry: {reconnect_ms}\n\n").as_bytes());
    if let Some(gap) = &begin.gap {
        let mut frame = b"event: stream.gap\ndata: ".to_vec();
        frame.extend(serde_json::to_vec(&json::StreamGap::from(gap)).expect("texts always serialise"));
        frame.extend_from_slice(b"\n\n");
        write_event(&mut piece, last, &frame);
    }
    piece.into()
}

/// One open stream.
struct Connection {
    /// None once the stream has ended.
    subscription: Option<Subscription>,
    /// The piece to write before any other.
    first: Option<Bytes>,
    ping: Interval,
    reconnect_ms: u32,
    shutdown: CancellationToken,
}

impl Connection {
    /// The next piece to write. It first checks whether the stream must end, however slowly the client reads.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let subscription = self.subscription.as_mut()?;
            let ended =
                if self.shutdown.is_cancelled() { Some(Step::End { reconnect: true }) } else { subscription.ended() };
            if let Some(Step::End { reconnect }) = ended {
                return self.end(reconnect);
            }
            if let Some(first) = self.first.take() {
                return Some(first);
            }
            let mut piece = Vec::new();
            let mut cursor = String::new();
            subscription.read(|cursors, positions, entry| {
                cursor.clear();
                cursors.encode_to(positions, &mut cursor);
                write_event(&mut piece, &cursor, &entry.frame);
                piece.len() < PIECE
            });
            if !piece.is_empty() {
                return Some(piece.into());
            }
            let step = tokio::select! {
                biased;
                () = self.shutdown.cancelled() => Step::End { reconnect: true },
                step = subscription.next() => step,
                _ = self.ping.tick() => {
                    piece.extend_from_slice(b": ping\n");
                    write_cursor(&mut piece, &subscription.cursor());
                    return Some(piece.into());
                }
            };
            if let Step::End { reconnect } = step {
                return self.end(reconnect);
            }
        }
    }

    fn end(&mut self, reconnect: bool) -> Option<Bytes> {
        self.subscription = None;
        reconnect.then(|| format!("retry: {}\n\n", self.reconnect_ms).into())
    }
}

/// Writes the stream's cursor as an event of its own type. Clients do not keep the id of a frame without data.
/// Listeners for messages do not get this type.
fn write_cursor(piece: &mut Vec<u8>, cursor: &str) {
    let mut frame = b"event: stream.cursor\ndata: ".to_vec();
    frame.extend(serde_json::to_vec(&json::StreamCursor::from(cursor)).expect("texts always serialise"));
    frame.extend_from_slice(b"\n\n");
    write_event(piece, cursor, &frame);
}

fn write_event(piece: &mut Vec<u8>, cursor: &str, frame: &[u8]) {
    piece.reserve(cursor.len() + frame.len() + 5);
    piece.extend_from_slice(b"id: ");
    piece.extend_from_slice(cursor.as_bytes());
    piece.push(b'\n');
    piece.extend_from_slice(frame);
}
