//! What is written to a client.

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
    edge::Peer,
    tests::fake::{FakeCore, Reply, edge, event, live, simply},
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
    let response = edge.respond(&Peer::new([192, 0, 2, 1].into()), request).await;
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

#[tokio::test(start_paused = true)]
async fn gap_replay_live_and_pings() {
    let log = Log::new();
    log.append(&[true, false, true]);
    let source = Arc::clone(&log);
    let core = FakeCore::new(move |operation, request| match operation {
        "StreamService/Open" => {
            let gap = v1::StreamGap { first_cursor: "a".into(), last_cursor: "b".into(), path: "/v1/events".into() };
            let replayed = v1::StreamEvent { cursor: "c".into(), event: Some(event(1)) };
            let now = vec![
                message(v1::open_response::Message::Gap(gap)),
                message(v1::open_response::Message::Event(replayed)),
                live(&[("sandbox", 2), ("project/p", 0)]),
            ];
            control(now, None)
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
    let gap = "event: stream.gap\ndata: {\"first_cursor\":\"a\",\"last_cursor\":\"b\",\"path\":\"/v1/events\"}\n\n";
    assert_eq!(piece(&mut body).await, gap);
    assert_eq!(piece(&mut body).await, frame("c", 1));
    let view = ["sandbox".to_owned(), "project/p".to_owned()];
    let cursor = |position| StreamCursor { positions: vec![position, 0] }.encode(&view);
    assert_eq!(piece(&mut body).await, frame(&cursor(3), 3));
    assert_eq!(piece(&mut body).await, ": ping\n\n");
    log.append(&[false, true, true]);
    assert_eq!(piece(&mut body).await, frame(&cursor(5), 5) + &frame(&cursor(6), 6));
}

#[tokio::test(start_paused = true)]
async fn a_filter_lets_only_its_events_through() {
    let log = Log::new();
    log.append(&[true, true]);
    let core = FakeCore::new(move |operation, request| match operation {
        "StreamService/Open" => control(vec![live(&[("sandbox", 0)])], None),
        _ => log.tail(request, 10, 100),
    });
    let (_, mut body) = open(&core, "?types=profile.updated", CancellationToken::new()).await;
    assert_eq!(piece(&mut body).await, ": ping\n\n");
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_ends_the_stream_without_a_word() {
    let core = FakeCore::new(|_, _| control(vec![live(&[])], Some(end(v1::StreamEndReason::Revoked))));
    let (_, mut body) = open(&core, "", CancellationToken::new()).await;
    assert_eq!(piece(&mut body).await, ": ping\n\n");
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stopping_edge_or_core_asks_to_reconnect() {
    let shutdown = CancellationToken::new();
    let core = FakeCore::new(|_, _| control(vec![live(&[])], None));
    let (_, mut body) = open(&core, "", shutdown.clone()).await;
    shutdown.cancel();
    assert_eq!(piece(&mut body).await, "retry: 1000\n\n");
    assert!(body.frame().await.is_none());

    let core = FakeCore::new(|_, _| control(vec![live(&[]), end(v1::StreamEndReason::ShuttingDown)], None));
    let (_, mut body) = open(&core, "", CancellationToken::new()).await;
    assert_eq!(piece(&mut body).await, "retry: 1000\n\n");
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
        let response = edge(&core, CancellationToken::new()).respond(&Peer::new([192, 0, 2, 1].into()), request).await;
        assert_eq!(response.status(), 200);
        let told = v1::OpenRequest::decode(core.seen.lock()[0].message.clone()).unwrap();
        assert_eq!(told.cursor.as_deref(), Some(expected));
    }
}
