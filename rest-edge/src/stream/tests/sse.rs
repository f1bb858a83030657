//! The text that a client receives.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Request, Version};
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    json::event_json,
    v1::{self, StreamEndReason},
};
use tokio_util::sync::CancellationToken;

use super::{Log, core, cursor, replaying};
use crate::{
    answer::Body,
    tests::fake::{FakeCore, edge, event, simply},
};

async fn open(core: &Arc<FakeCore>, query: &str, shutdown: CancellationToken) -> (HeaderMap, Body) {
    // Over HTTP/1.1 the events are no body: the stream takes over the connection.
    let request = Request::get(format!("/v1/events/stream{query}")).version(Version::HTTP_2);
    let request = request.body(Full::<Bytes>::default()).unwrap();
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

/// The lines of a cursor.
fn cursor_line(cursor: &str) -> String {
    format!("id: {cursor}\nevent: stream.cursor\ndata: {{\"object\":\"stream_cursor\",\"cursor\":\"{cursor}\"}}\n")
}

/// The rest of the first piece, and the milliseconds until the client reconnects.
async fn first_piece(body: &mut Body, cursor: &str) -> (String, u32) {
    let piece = piece(body).await;
    let (head, rest) = piece.strip_prefix(&cursor_line(cursor)).unwrap().split_once("\n\n").unwrap();
    let retry = head.strip_prefix("retry: ").unwrap().parse().unwrap();
    assert!((500..=5_000).contains(&retry));
    (rest.to_owned(), retry)
}

#[tokio::test(start_paused = true)]
async fn gap_replay_live_and_pings() {
    let log = Log::new();
    log.append(&[true, false, true]);
    let gap =
        v1::StreamGap { first_cursor: cursor(0), last_cursor: cursor(1), path: "/v1/events".into(), skipped: Some(1) };
    let core = core(&log, 1, 3, Some(gap));
    let (headers, mut body) = open(&core, "", CancellationToken::new()).await;
    assert_eq!(headers["content-type"], "text/event-stream");
    assert_eq!(headers["cache-control"], "no-store, no-transform");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert_eq!(headers["x-accel-buffering"], "no");
    assert_eq!(headers["x-ratelimit-limit"], "300");
    assert!(headers.contains_key("x-service-request-id"));
    let gap = format!(
        "id: {}\nevent: stream.gap\ndata: {{\"first_cursor\":\"{}\",\"last_cursor\":\"{}\",\"skipped\":1,\"path\":\"/v1/events\"}}\n\n",
        cursor(1),
        cursor(0),
        cursor(1)
    );
    assert_eq!(first_piece(&mut body, &cursor(0)).await.0, gap);
    // Missed events are read from the log, later ones from the feed.
    assert_eq!(piece(&mut body).await, frame(&cursor(3), 3));
    assert_eq!(piece(&mut body).await, format!(": ping\n{}\n", cursor_line(&cursor(3))));
    log.append(&[false, true, true]);
    assert_eq!(piece(&mut body).await, frame(&cursor(5), 5) + &frame(&cursor(6), 6));
}

/// A replay of 1970, up to the second entry.
const REPLAY: &str = "?from=1970-01-01T00:00:00Z&to=1970-01-02T00:00:00Z";

#[tokio::test(start_paused = true)]
async fn a_replay_has_the_frames_of_live_events_and_ends_with_its_cursor() {
    let log = Log::new();
    log.append(&[true, true, true]);
    let (_, mut body) = open(&replaying(&log, false), REPLAY, CancellationToken::new()).await;
    first_piece(&mut body, &cursor(0)).await;
    let end = cursor_line(&cursor(2)).replace("event: stream.cursor", "event: stream.end");
    assert_eq!(piece(&mut body).await, frame(&cursor(1), 1) + &frame(&cursor(2), 2) + &end + "\n");
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_resumes_a_finished_replay_stops() {
    let core = replaying(&Log::new(), true);
    let request = Request::get(format!("/v1/events/stream{REPLAY}")).header("last-event-id", cursor(2));
    let request = request.body(Full::<Bytes>::default()).unwrap();
    let response = edge(&core, CancellationToken::new()).respond([192, 0, 2, 1].into(), request).await;
    assert_eq!(response.status(), 204);
    assert_eq!(response.headers()["x-ratelimit-limit"], "300");
    assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_core_that_cannot_replay_is_as_if_it_were_not_there() {
    let (status, _, body) = simply(&core(&Log::new(), 0, 0, None), "GET", &format!("/v1/events/stream{REPLAY}")).await;
    assert_eq!((status.as_u16(), body["error"]["code"].as_str()), (503, Some("SERVICE_UNAVAILABLE")));
}

#[tokio::test(start_paused = true)]
async fn a_filter_lets_only_its_events_through_and_the_cursor_moves_on() {
    let log = Log::new();
    log.append(&[true, true]);
    let (_, mut body) = open(&core(&log, 0, 2, None), "?types=profile.updated&token=A", CancellationToken::new()).await;
    first_piece(&mut body, &cursor(0)).await;
    assert_eq!(piece(&mut body).await, format!(": ping\n{}\n", cursor_line(&cursor(2))));
}

#[tokio::test(start_paused = true)]
async fn a_revoked_key_ends_the_stream_without_a_word() {
    let core = core(&Log::new(), 0, 0, None);
    let (_, mut body) = open(&core, "", CancellationToken::new()).await;
    first_piece(&mut body, &cursor(0)).await;
    assert!(piece(&mut body).await.starts_with(": ping\n"));
    core.end(1, StreamEndReason::Revoked);
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_once_the_key_is_revoked() {
    let log = Log::new();
    log.append(&[true; 50]);
    let core = core(&log, 0, 50, None);
    // The client reads one piece, and the next only after the key is revoked. Events wait all the time.
    let (_, mut body) = open(&core, "", CancellationToken::new()).await;
    first_piece(&mut body, &cursor(0)).await;
    assert!(piece(&mut body).await.contains("evt_1"));
    log.append(&[true; 50]);
    core.end(1, StreamEndReason::Revoked);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stopping_edge_or_core_asks_to_reconnect() {
    let shutdown = CancellationToken::new();
    let (_, mut body) = open(&core(&Log::new(), 0, 0, None), "", shutdown.clone()).await;
    let (_, retry) = first_piece(&mut body, &cursor(0)).await;
    shutdown.cancel();
    assert_eq!(piece(&mut body).await, format!("retry: {retry}\n\n"));
    assert!(body.frame().await.is_none());

    let core = core(&Log::new(), 0, 0, None);
    let (_, mut body) = open(&core, "", CancellationToken::new()).await;
    first_piece(&mut body, &cursor(0)).await;
    core.end(1, StreamEndReason::ShuttingDown);
    assert!(piece(&mut body).await.starts_with("retry: "));
    assert!(body.frame().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_head_request_takes_no_place() {
    let core = core(&Log::new(), 0, 0, None);
    let (status, headers, _) = simply(&core, "HEAD", "/v1/events/stream").await;
    assert_eq!((status.as_u16(), &headers["content-type"]), (200, &"text/event-stream".parse().unwrap()));
    let request = v1::OpenRequest::decode(core.seen.lock()[0].message.clone()).unwrap();
    assert_eq!(request.kind(), v1::OpenKind::Check);
}

#[tokio::test]
async fn what_is_wrong_before_the_head_gets_the_envelope() {
    let refuse = || ApiError::new(ErrorCode::StreamLimitReached, "too many").to_status("req_core");
    let core = FakeCore::new(move |_, _| Err(refuse()));
    let (status, headers, body) = simply(&core, "GET", "/v1/events/stream").await;
    assert_eq!((status.as_u16(), body["error"]["code"].as_str()), (429, Some("STREAM_LIMIT_REACHED")));
    assert_eq!(headers["content-type"], "application/json");
}

#[tokio::test]
async fn the_header_wins_over_the_parameter() {
    for (header, expected) in [("a", "a"), ("", "b")] {
        let core = core(&Log::new(), 0, 0, None);
        let request = Request::get("/v1/events/stream?from_cursor=b").header("last-event-id", header);
        let request = request.body(Full::<Bytes>::default()).unwrap();
        let response = edge(&core, CancellationToken::new()).respond([192, 0, 2, 1].into(), request).await;
        assert_eq!(response.status(), 200);
        let seen = core.seen.lock();
        let opening = seen.iter().find(|call| call.operation == "StreamService/Open").unwrap();
        let request = v1::OpenRequest::decode(opening.message.clone()).unwrap();
        assert_eq!(request.cursor.as_deref(), Some(expected));
    }
}
