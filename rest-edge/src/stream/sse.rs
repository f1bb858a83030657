//! `GET /v1/events/stream`: Server-Sent Events.

use std::{
    convert::Infallible,
    ops::RangeInclusive,
    task::{Context as Task, Poll, ready},
    time::Duration,
};

use futures::stream::{pending, poll_fn};
use http::{
    HeaderValue, Method, Response, Version,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Either, StreamBody};
use hyper::body::Frame;
use thesis_net::server::Takeover;
use thesis_proto::{
    cursor::CursorEncoder,
    error::ErrorCode,
    json,
    names::event_type_name,
    v1::{self, OpenKind},
};
use thesis_streams::{End, OpenStream, Step, Subscription};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tonic::metadata::MetadataMap;

use super::chunked::Chunked;
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
    super::TICKET,
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
    let mut request = v1::OpenRequest {
        types: query.event_types("types"),
        filters: query.filters(),
        cursor: last_event_id(call)?.or(from_cursor),
        ticket: query.text("ticket"),
        ..v1::OpenRequest::default()
    };
    query.finish(call);
    super::one_credential(call, request.ticket.as_ref())?;
    if call.head.method == Method::HEAD {
        request.set_kind(OpenKind::Check);
        let (told, ..) = edge.core.streams.open(call.request(request)).await?.into_parts();
        return Ok(response(&told, Either::Left(Default::default())));
    }
    let (types, filters) = (request.types.clone(), request.filters.clone());
    let (opened, stream) = edge.hub.open(call.request(request)).await?;
    let subscription = edge.hub.follow(&stream, &opened.begin, &types, filters.as_ref());
    let reconnect_ms = reconnect_ms(edge);
    let mut events = Events {
        // Core has accepted the same filter.
        subscription: subscription.map_err(|_| Failure::incomplete())?,
        stream: Some(stream),
        first: Some(first_piece(&opened.begin, reconnect_ms)),
        ping: pings(),
        reconnect_ms,
    };
    if call.head.version == Version::HTTP_11 {
        let mut response = response(&opened.metadata, Either::Right(StreamBody::new(pending()).boxed_unsync()));
        response.extensions_mut().insert(Takeover::new(|socket| Chunked::new(socket, events).run()));
        return Ok(response);
    }
    let pieces = poll_fn(move |task| {
        let mut piece = Vec::new();
        let has_more = ready!(events.poll_piece(task, &mut piece));
        Poll::Ready(has_more.then(|| Ok::<_, Infallible>(Frame::data(piece.into()))))
    });
    Ok(response(&opened.metadata, Either::Right(StreamBody::new(pieces).boxed_unsync())))
}

/// An answer that streams. Proxies must neither keep nor gather nor change its pieces.
fn response(told: &MetadataMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    copy_headers(told, headers);
    response
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
fn first_piece(begin: &v1::OpenResponse, reconnect_ms: u32) -> Box<[u8]> {
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
        let data = serde_json::to_vec(&json::StreamGap::from(gap)).expect("texts always serialise");
        write_event(&mut piece, last, "stream.gap", &data);
    }
    piece.into()
}

/// One open stream, as the pieces that its client gets.
pub(super) struct Events {
    /// None once the stream has ended.
    stream: Option<OpenStream>,
    subscription: Subscription,
    /// The piece to write before any other.
    first: Option<Box<[u8]>>,
    ping: Interval,
    reconnect_ms: u32,
}

impl Events {
    /// Adds the next piece to write; without one, the stream has ended. It first checks whether the stream must end,
    /// however slowly the client reads.
    pub(super) fn poll_piece(&mut self, task: &mut Task<'_>, piece: &mut Vec<u8>) -> Poll<bool> {
        loop {
            let Some(stream) = &self.stream else { return Poll::Ready(false) };
            let step = stream.poll_step(&mut self.subscription, &mut self.ping, task);
            if let Poll::Ready(Step::End(end)) = step {
                self.stream = None;
                if end == End::Reconnect {
                    piece.extend_from_slice(format!("retry: {}\n\n", self.reconnect_ms).as_bytes());
                }
                return Poll::Ready(end == End::Reconnect);
            }
            if let Some(first) = self.first.take() {
                piece.extend_from_slice(&first);
                return Poll::Ready(true);
            }
            let step = ready!(step);
            let before = piece.len();
            // Before a cursor too, which moves over what does not match only when it is read.
            self.subscription.read(|cursor, entry| {
                write_event(piece, cursor, event_type_name(entry.keys.event_type), &entry.body);
                piece.len() < PIECE
            });
            if step == Step::Heartbeat {
                piece.extend_from_slice(b": ping\n");
                write_cursor(piece, &self.subscription.cursor());
            }
            if piece.len() > before {
                return Poll::Ready(true);
            }
        }
    }

    /// Whether the client must get no more of a piece. If it may, the task is woken when that changes.
    pub(super) fn is_withdrawn(&self, task: &Task<'_>) -> bool {
        self.stream.as_ref().is_some_and(|stream| {
            stream.register(task);
            stream.ended().is_some_and(|end| end != End::Reconnect)
        })
    }
}

/// Writes the stream's cursor as an event of its own type. Clients do not keep the id of a frame without data.
/// Listeners for messages do not get this type.
fn write_cursor(piece: &mut Vec<u8>, cursor: &str) {
    let data = serde_json::to_vec(&json::StreamCursor::from(cursor)).expect("texts always serialise");
    write_event(piece, cursor, "stream.cursor", &data);
}

fn write_event(piece: &mut Vec<u8>, cursor: &str, kind: &str, data: &[u8]) {
    piece.reserve(cursor.len() + kind.len() + data.len() + 24);
    let parts: [&[u8]; 7] = [b"id: ", cursor.as_bytes(), b"\nevent: ", kind.as_bytes(), b"\ndata: ", data, b"\n\n"];
    for part in parts {
        piece.extend_from_slice(part);
    }
}
