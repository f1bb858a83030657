//! `GET /v1/events/stream`: Server-Sent Events.

use std::{
    convert::Infallible,
    ops::RangeInclusive,
    task::{Poll, ready},
};

use futures::stream::{pending, poll_fn};
use http::{
    HeaderValue, Method, Response, StatusCode, Version,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use http_body_util::{BodyExt as _, Either, StreamBody};
use hyper::body::Frame;
use thesis_net::server::Takeover;
use thesis_proto::{
    error::ErrorCode,
    v1::{self, OpenKind},
};
use tonic::metadata::MetadataMap;

use super::{chunked::ChunkedWriter, sse_events::EventPieces};
use crate::{
    answer::{Answer, Body, Failure, copy_headers},
    call::Call,
    context::Context,
    input::{Kind, Param},
    route::{Route, route},
};

/// Clients wait a random time in this range before they reconnect.
const RECONNECT_MS: RangeInclusive<u32> = 500..=5_000;

const QUERY: &[Param] = &[
    Param::TYPES,
    Param::TOKENS,
    Param::HANDLES,
    Param::CHAINS,
    Param::SEARCHES,
    super::TICKET,
    Param::new("from_cursor", Kind::Text(0, 512), "Resumes after this cursor, the `id` of an event's frame"),
    super::FROM,
    super::TO,
    super::SPEED,
];

const HEADERS: &[Param] =
    &[Param::new("Last-Event-ID", Kind::Text(0, 512), "Resumes after this cursor; wins over `from_cursor`")];

pub(crate) fn routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/events/stream", "StreamService/Open", open)
            .named("streamEvents", "Streams", "Streams events as they happen, as Server-Sent Events.")
            .about(
                "Open it with a library for Server-Sent Events: a generated client waits for the end of an answer, \
                 and this one has none. The guide [Streams](/docs/streams) shows such libraries.\n\n\
                 Filters work as for `GET /v1/events`. Each frame has `id` (a cursor), `event` (the type) and \
                 `data` (the event as JSON on one line). Every 15 seconds comes a comment `: ping`, with a frame \
                 `stream.cursor` that holds a fresh cursor, so that a quiet stream can be resumed too; the first \
                 such frame comes at once. `retry` tells when to reconnect.\n\n\
                 Resume with the last `id` as `Last-Event-ID`, or as `from_cursor`: events that were missed come \
                 first, up to 1,000 and within the plan's history window. When some are left out, `stream.gap` \
                 says so first; its `path` lists them. A cursor that was never issued, or is older than a restore of \
                 the service, is 400 `INVALID_CURSOR`.\n\n\
                 With `from` the stream replays past events: the same frames as live, however many, as fast as you \
                 read or paced by `speed`. Without `to` it continues live. With `to` it ends with a frame \
                 `stream.end`, which holds the last cursor. A cursor takes precedence over `from`, so a client that \
                 reconnects to the same address continues where it was. After the end it gets 204, so that \
                 `EventSource` stops. A quarter of the plan's streams, and at least one, may replay at once.\n\n\
                 The stream ends without a frame when its key is revoked or expires, loses its rights, or when \
                 its ticket opens another connection. It ends after `retry` when the server shuts down, and cut off \
                 when the client is both over 1,000 events behind and not progressing for 60 seconds, or takes \
                 nothing for ten minutes. Reconnect then: a refusal tells what is wrong.\n\n\
                 Each connection counts as one of the plan's streams, and its opening as one standard request. \
                 `HEAD` checks a request and opens nothing. It answers 404 `FEATURE_DISABLED` while streams are \
                 off.",
            )
            .needs(Some("streams:read"), "standard")
            .fails(&[ErrorCode::FeatureDisabled, ErrorCode::HistoryLimit, ErrorCode::StreamLimitReached])
            .query(QUERY)
            .headers(HEADERS)
            .answers_events(),
    ]
}

async fn open(edge: &Context, call: &Call) -> Answer {
    let mut query = call.query()?;
    let from_cursor = query.text("from_cursor");
    let last_event_id = last_event_id(call)?;
    let cursor_name = if last_event_id.is_some() { "Last-Event-ID" } else { "from_cursor" };
    let failure = |status| name_cursor(Failure::from(status), cursor_name);
    let mut request = v1::OpenRequest {
        types: query.event_types("types"),
        filters: query.filters(),
        cursor: last_event_id.or(from_cursor),
        ticket: query.text("ticket"),
        from: query.time("from"),
        to: query.time("to"),
        speed: query.speed("speed"),
        ..v1::OpenRequest::default()
    };
    call.add_unread(query.unread());
    super::one_credential(call, request.ticket.as_ref())?;
    if call.head.method == Method::HEAD {
        request.set_kind(OpenKind::Check);
        let (metadata, ..) = edge.core.streams.open(call.request(request)).await.map_err(failure)?.into_parts();
        return Ok(response(&metadata, Either::Left(Default::default())));
    }
    let (types, filters) = (request.types.clone(), request.filters.clone());
    let (opened, stream) = edge.hub.open("sse", call.request(request)).await.map_err(failure)?;
    if opened.begin.replay.as_ref().is_some_and(|replay| replay.is_complete) {
        stream.ends_for("complete");
        return Ok(nothing_left(&opened.metadata));
    }
    let subscription = edge.hub.follow(&stream, &opened, &types, filters.as_ref());
    // Core has validated the same filter.
    let subscription = subscription.map_err(|_| Failure::incomplete())?;
    let mut events = EventPieces::new(stream, subscription, &opened.begin, reconnect_ms(edge));
    if call.head.version != Version::HTTP_2 {
        let mut response = response(&opened.metadata, Either::Right(StreamBody::new(pending()).boxed_unsync()));
        let has_chunks = call.head.version == Version::HTTP_11;
        response
            .extensions_mut()
            .insert(Takeover::new(move |socket| ChunkedWriter::new(socket, events, has_chunks).run()));
        return Ok(response);
    }
    let pieces = poll_fn(move |task| {
        let mut piece = Vec::new();
        let has_more = ready!(events.poll_piece(task, &mut piece));
        Poll::Ready(has_more.then(|| Ok::<_, Infallible>(Frame::data(piece.into()))))
    });
    Ok(response(&opened.metadata, Either::Right(StreamBody::new(pieces).boxed_unsync())))
}

/// A streaming response. Proxies must not store, buffer or change its pieces.
fn response(metadata: &MetadataMap, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    copy_headers(metadata, headers);
    response
}

/// The response to a client that resumes a finished replay. After it, an `EventSource` does not reconnect.
fn nothing_left(metadata: &MetadataMap) -> Response<Body> {
    let mut response = Response::new(Either::Left(Default::default()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    copy_headers(metadata, response.headers_mut());
    response
}

/// Names the cursor in a failure as the client named it.
fn name_cursor(mut failure: Failure, cursor_name: &str) -> Failure {
    if let Failure::Error(error, _) = &mut failure
        && error.param.as_deref() == Some("cursor")
    {
        error.param = Some(cursor_name.to_owned());
    }
    failure
}

/// Reads `Last-Event-ID`. Clients without any event send an empty value, which counts as none.
fn last_event_id(call: &Call) -> Result<Option<String>, Failure> {
    let mut values = call.head.headers.get_all("last-event-id").iter().filter(|value| !value.is_empty());
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let text = value.to_str().ok().filter(|_| values.next().is_none());
    let unreadable = || Failure::shape(ErrorCode::InvalidRequest, "Last-Event-ID must be one cursor");
    text.map(|text| Some(text.to_owned())).ok_or_else(unreadable)
}

/// Milliseconds until the client reconnects. They are random, so that not all clients reconnect at once.
fn reconnect_ms(edge: &Context) -> u32 {
    let mut random = [0; 4];
    edge.ids.fill(&mut random);
    RECONNECT_MS.start() + u32::from_le_bytes(random) % (RECONNECT_MS.end() - RECONNECT_MS.start() + 1)
}
