//! `GET /v1/events/stream`: Server-Sent Events.

use std::{convert::Infallible, time::Duration};

use bytes::Bytes;
use futures::stream::unfold;
use http::{
    HeaderValue, Method, Response,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Either, StreamBody};
use hyper::body::Frame;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    filter::CompiledFilter,
    json,
    v1::{self, stream_service_client::StreamServiceClient},
};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use tokio_util::sync::CancellationToken;

use super::{
    ring::event_frame,
    subscription::{Opened, Step, Subscription},
};
use crate::{
    answer::{Answer, Body, Failure, copy_headers},
    call::Call,
    edge::Edge,
    input::{Kind, Param},
    route::Route,
};

const PING: Duration = Duration::from_secs(15);
/// Frames are written in pieces of about this size.
const PIECE: usize = 16 * 1024;
/// How long a client waits before it opens a stream again that the service ended.
const RECONNECT: &str = "retry: 1000\n\n";

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

async fn open(edge: &Edge, call: &Call<'_>) -> Answer {
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

    let mut core = core_client!(StreamServiceClient, edge);
    let (told, mut rest, _) = core.open(call.request(request)).await?.into_parts();
    // The positions are fixed with the first message; the head must not be sent before.
    let first = rest.message().await?.ok_or_else(ApiError::unavailable)?;
    // Core has taken the same filter.
    let filter = filter.map_err(|_| Failure::incomplete())?;
    let connection = Connection {
        subscription: Some(Subscription::new(Opened { first, rest }, filter, edge.feeds.clone())),
        ping: pings(),
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

/// `Last-Event-ID`; an empty one is what clients send that have seen none.
fn last_event_id(call: &Call<'_>) -> Result<Option<String>, Failure> {
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

/// One open stream.
struct Connection {
    /// Gone once the stream has ended.
    subscription: Option<Subscription>,
    ping: Interval,
    shutdown: CancellationToken,
}

impl Connection {
    /// The next piece to write.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let subscription = self.subscription.as_mut()?;
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
                _ = self.ping.tick() => return Some(Bytes::from_static(b": ping\n\n")),
            };
            match step {
                Step::More => {}
                Step::Gap(gap) => return Some(gap_frame(&gap)),
                Step::Replayed(replayed) => {
                    let Some(event) = &replayed.event else {
                        continue;
                    };
                    write_event(&mut piece, &replayed.cursor, &event_frame(event));
                    return Some(piece.into());
                }
                Step::End { reconnect } => {
                    self.subscription = None;
                    return reconnect.then(|| Bytes::from_static(RECONNECT.as_bytes()));
                }
            }
        }
    }
}

fn write_event(piece: &mut Vec<u8>, cursor: &str, frame: &[u8]) {
    piece.reserve(cursor.len() + frame.len() + 5);
    piece.extend_from_slice(b"id: ");
    piece.extend_from_slice(cursor.as_bytes());
    piece.push(b'\n');
    piece.extend_from_slice(frame);
}

fn gap_frame(gap: &v1::StreamGap) -> Bytes {
    let mut frame = b"event: stream.gap\ndata: ".to_vec();
    frame.extend(serde_json::to_vec(&json::StreamGap::from(gap)).expect("texts always serialise"));
    frame.extend_from_slice(b"\n\n");
    frame.into()
}
