//! The text that is written to a client.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use thesis_proto::{
    cursor::StreamCursor,
    error::{ApiError, ErrorCode},
    json::event_json,
    v1,
};
use tokio_util::sync::CancellationToken;

use super::Log;
use crate::{
    answer::Body,
    tests::fake::{FakeCore, Reply, begin, edge, event, live, simply},
};

fn message(message: v1::open_response::Message) -> v1::OpenResponse {
    v1::OpenResponse { message: Some(message) }
}

fn end(reason: v1::StreamEndReason) -> v1::OpenResponse {
    message(v1::open_response::Message::End(v1::StreamEnd { reason: reason.into() }))
}

/// These messages at once, and more after a while.
fn control(now: Vec<v1::OpenResponse>, later: Option<v1::OpenResponse>) -> Reply {
    let bytes = |message: v1::OpenResponse| Ok(Bytes::from(message.encode_to_vec()));
    let later = async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        match later {
            Some(message) => bytes(message),
            None => std::future::pending().await,
        }
    };
    Ok(stream::iter(now).map(bytes).chain(stream::once(later)).boxed())
}

async fn open(core: &Arc<FakeCore>, query: &str, shutdown: CancellationToken) -> (HeaderMap, Body) {
    let request = Request::get(format!("/v1/events/stream{query}")).body(Full::<Bytes>::default()).unwrap();
    let edge = edge(core, shutdown);
    let response = edge.respond([192, 0, 2, 1].into(), request).await;
    assert_eq!(response.status(), 200);
    let (head, body) = response.into_parts();
    (head.headers, body)
}

async fn piece(body: &mut Body) -> String {
    let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
    String::from_utf8(data.to_vec()).unwrap()
}

fn frame(cursor: &str, number: u64) -> String {
    let data = String::from_utf8(event_json(&event(number))).unwrap();
    format!("id: {cursor}\nevent: thesis.created\ndata: {data}\n\n")
}

fn cursor(view: &[&str], positions: &[u64]) -> String {
    let view: Vec<String> = view.iter().map(ToString::to_string).collect();
    StreamCursor { positions: positions.to_vec() }.encode(&view)
}

/// The lines that tell where a stream stands.
fn stands(cursor: &str) -> String {
    format!("id: {cursor}\nevent: stream.cursor\ndata: {{\"object\":\"stream_cursor\",\"cursor\":\"{cursor}\"}}\n")
}

/// The first piece, and the milliseconds to wait before reconnecting.
async fn first_piece(body: &mut Body, cursor: &str) -> (String, u32) {
    let piece = piece(body).await;
    let (told, rest) = piece.strip_prefix(&stands(cursor)).unwrap().split_once("\n\n").unwrap();
    let retry = told.strip_prefix("retry: ").unwrap().parse().unwrap();
    assert!((500..=5_000).contains(&retry));
    (rest.to_owned(), retry)
}

#[tokio::test(start_paused = true)]
async fn gap_replay_live_and_pings() {
    const VIEW: [&str; 2] = ["sandbox", "project/p"];
    let log = Log::new();
    log.append(&[true, false, true]);
    let source = Arc::clone(&log);
    let core = FakeCore::new(move |operation, request| match operation {
        "StreamService/Open" => {
            let (first_cursor, last_cursor) = (cursor(&VIEW, &[0, 0]), cursor(&VIEW, &[1, 0]));
            let gap = v1::StreamGap { first_cursor, last_cursor, path: "/v1/events".into(), skipped: Some(1) };
            let (from, live) = ([(VIEW[0], 1), (VIEW[1], 0)], [(VIEW[0], 3), (VIEW[1], 0)]);
            control(vec![begin(&from, &live, Some(gap))], None)
        }
        _ if request.windows(7).any(|part| part == b"sandbox") => source.tail(request, 10, 100),
        _ => Ok(stream::pending().boxed()),
    });
    let (headers, mut body) = open(&core, "", CancellationToken::new()).await;
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert_eq!(headers["x-ratelimit-limit"], "300");
    assert!(headers.contains_key("x-service-request-id"));
    let at = |position| cursor(&VIEW, &[position, 0]);
    let gap = format!(
        "id: {}\nevent: stream.gap\ndata: {{\"first_cursor\":\"{}\",\"last_cursor\":\"{}\",\"skipped\":1,\"path\":\"/v1/events\"}}\n\n",
        at(1),
        at(0),
        at(1)
    );
    assert_eq!(first_piece(&mut body, &at(0)).await.0, gap);
    // Missed events are read from the log, later ones from the feed.
    assert_eq!(piece(&mut body).await, frame(&at(3), 3));
    assert_eq!(piece(&mut body).await, format!(": ping\n{}\n", stands(&at(3))));
    log.append(&[false, true, true]);
    assert_eq!(piece(&mut body).await, frame(&at(5), 5) + &frame(&at(6), 6));
}

#[tokio::test(start_paused = true)]
async fn a_filter_lets_only_its_events_through_and_the_cursor_moves_on() {
    let log = Log::new();
    log.append(&[true, true]);
    let core = FakeCore::new(move |operation, request| match operation {
        "StreamService/Open" => control(vec![begin(&[("sandbox", 0)], &[("sandbox", 2)], None)], None),
        _ => log.tail(request, 10, 100),
    });
    let (_, mut body) = open(&core, "?types=profile.updated&token=A", CancellationToken::new()).await;
    first_piece(&mut body, &cursor(&["sandbox"], &[0])).await;
    assert_eq!(piece(&mut body).await, format!(": ping\n{}\n", stands(&cursor(&["sandbox"], &[2]))));
    // A connection that is behind asks core for matching events only; the shared feed asks for all from the present.
    let seen = core.seen.lock();
    let mut tails: Vec<v1::TailRequest> =
        seen[1..].iter().map(|call| v1::TailRequest::decode(call.message.clone()).unwrap()).collect();
    tails.sort_by_key(|tail| tail.after);
    assert_eq!(tails.iter().map(|tail| tail.after).collect::<Vec<_>>(), [0, 2]);
    assert_eq!(tails[0].types, [i32::from(v1::EventType::ProfileUpdated)]);
    assert_eq!(tails[0].filters.as_ref().unwrap().token, ["A"]);
    assert!(tails[1].types.is_empty() && tails[1].filters.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_ends_the_stream_without_a_word() {
    let core = FakeCore::new(|_, _| control(vec![live(&[])], Some(end(v1::StreamEndReason::Revoked))));
    let (_, mut body) = open(&core, "", CancellationToken::new()).await;
    first_piece(&mut body, &cursor(&[], &[])).await;
    assert!(piece(&mut body).await.starts_with(": ping\n"));
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_once_the_key_is_revoked() {
    let log = Log::new();
    log.append(&[true; 50]);
    let core = FakeCore::new(move |operation, request| match operation {
        "StreamService/Open" => {
            let begin = begin(&[("sandbox", 0)], &[("sandbox", 50)], None);
            control(vec![begin], Some(end(v1::StreamEndReason::Revoked)))
        }
        _ => log.tail(request, 10, 100),
    });
    // The reader takes one piece, and the next only after the key is gone; events wait all the time.
    let (_, mut body) = open(&core, "", CancellationToken::new()).await;
    first_piece(&mut body, &cursor(&["sandbox"], &[0])).await;
    assert!(piece(&mut body).await.contains("evt_1"));
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stopping_edge_or_core_asks_to_reconnect() {
    let shutdown = CancellationToken::new();
    let core = FakeCore::new(|_, _| control(vec![live(&[])], None));
    let (_, mut body) = open(&core, "", shutdown.clone()).await;
    let (_, retry) = first_piece(&mut body, &cursor(&[], &[])).await;
    shutdown.cancel();
    assert_eq!(piece(&mut body).await, format!("retry: {retry}\n\n"));
    assert!(body.frame().await.is_none());

    let core = FakeCore::new(|_, _| control(vec![live(&[]), end(v1::StreamEndReason::ShuttingDown)], None));
    let (_, mut body) = open(&core, "", CancellationToken::new()).await;
    assert!(piece(&mut body).await.starts_with("retry: "));
    assert!(body.frame().await.is_none());
}

#[tokio::test]
async fn what_is_wrong_before_the_head_gets_the_envelope() {
    let refuse = || ApiError::new(ErrorCode::StreamLimitReached, "too many").to_status("req_core");
    let core = FakeCore::new(move |_, _| Err(refuse()));
    let (status, headers, body) = simply(&core, "GET", "/v1/events/stream").await;
    assert_eq!((status.as_u16(), body["error"]["code"].as_str()), (429, Some("STREAM_LIMIT_REACHED")));
    assert_eq!(headers["content-type"], "application/json");

    let core = FakeCore::new(move |_, _| Ok(stream::iter([Err(refuse())]).boxed()));
    let (status, ..) = simply(&core, "GET", "/v1/events/stream").await;
    assert_eq!(status, 429);
}

#[tokio::test]
async fn the_header_wins_over_the_parameter() {
    for (header, expected) in [("a", "a"), ("", "b")] {
        let core = FakeCore::new(|_, _| control(vec![live(&[])], None));
        let request = Request::get("/v1/events/stream?from_cursor=b").header("last-event-id", header);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let response = edge(&core, CancellationToken::new()).respond([192, 0, 2, 1].into(), request).await;
        assert_eq!(response.status(), 200);
        let told = v1::OpenRequest::decode(core.seen.lock()[0].message.clone()).unwrap();
        assert_eq!(told.cursor.as_deref(), Some(expected));
    }
}
