use std::sync::Arc;

use http::Method;

use super::*;
use crate::{
    domain::request_log::KEPT_MS,
    tables::request_log::{RequestSpan, page},
    tests::{faulty::MemoryStore, harness::NOON},
};

fn key(id: &str) -> ApiKey {
    ApiKey { id: id.to_owned(), project_id: "prj_1".to_owned(), ..ApiKey::default() }
}

fn log() -> RequestLog {
    RequestLog::new(Arc::new(MemoryStore::new(false)))
}

/// Notes a request over gRPC that ends at a time.
fn note(log: &RequestLog, key: &ApiKey, number: usize, code: Option<ErrorCode>, now_ms: i64) {
    log.note(&NotedRequest {
        key,
        operation: Operation::GetMe,
        line: None,
        client: Some("192.0.2.1"),
        request_id: &format!("req_{number}"),
        code,
        began_ms: now_ms - 7,
        now_ms,
    });
}

/// The stored requests of the test environment, newest first.
async fn stored(log: &RequestLog) -> Vec<RequestRow> {
    log.flush().await;
    let span = RequestSpan { from: NOON - KEPT_MS, to: NOON + KEPT_MS };
    page(&log.backend, "prj_1/test", span, None, 10_000, |_| true).await.unwrap().rows
}

fn count(rows: &[RequestRow], is_error: bool) -> usize {
    rows.iter().filter(|row| row.request.is_error() == is_error).count()
}

#[tokio::test]
async fn an_entry_has_the_request_line_and_the_outcome() {
    let log = log();
    let line = RequestLine {
        method: Method::GET,
        route: "/v1/theses/{id}".into(),
        uri: "/v1/theses/th_1?ticket=secret&limit=2".parse().unwrap(),
        status: 200,
    };
    log.note(&NotedRequest {
        key: &key("key_1"),
        operation: Operation::GetThesis,
        line: Some(&line),
        client: Some("192.0.2.1"),
        request_id: "req_1",
        code: Some(ErrorCode::ThesisNotFound),
        began_ms: NOON,
        now_ms: NOON + 12,
    });
    note(&log, &key("key_1"), 2, None, NOON + 20);
    let rows = stored(&log).await;
    let [second, first] = &rows[..] else { panic!("{rows:?}") };
    let expected = LoggedRequest {
        method: "GET".to_owned(),
        route: "/v1/theses/{id}".to_owned(),
        path: "/v1/theses/th_1".to_owned(),
        query: "ticket=***&limit=2".to_owned(),
        status: 404,
        code: Some("THESIS_NOT_FOUND".to_owned()),
        duration_ms: 12,
        key: "key_1".to_owned(),
        address: Some("192.0.2.1".to_owned()),
        stands_for: 1,
        is_complete: false,
    };
    assert_eq!(first, &RequestRow { at: NOON, id: "req_1".to_owned(), request: expected });
    let shown = (&*second.request.method, &*second.request.route, second.request.status, second.request.duration_ms);
    assert_eq!(shown, ("gRPC", "/thesis.v1.MetaService/GetMe", 200, 7));
    assert!(second.request.is_complete);
}

#[test]
fn an_entry_is_complete_unless_something_is_cut_or_hidden() {
    let is_complete = |uri: &str| {
        let (method, route) = (Method::GET, "/v1/theses/{id}".into());
        let line = RequestLine { method, route, uri: uri.parse().unwrap(), status: 200 };
        let noted = NotedRequest {
            key: &key("key_1"),
            operation: Operation::GetThesis,
            line: Some(&line),
            client: None,
            request_id: "req_1",
            code: None,
            began_ms: NOON,
            now_ms: NOON,
        };
        noted.row().request.is_complete
    };
    let long = |letters| format!("/{}?{}", "p".repeat(511), "q".repeat(letters));
    for uri in ["/v1/theses/th_1", "/v1/theses/th_1?limit=2&&token=%24RUN&x", "/v1/theses/***", &*long(1_024)] {
        assert!(is_complete(uri), "{uri}");
    }
    let cut_path = format!("/{}", "p".repeat(512));
    for uri in ["/v1/theses/svc_test_a", "/v1/theses/th_1?ticket=t", &*long(1_025), &*cut_path] {
        assert!(!is_complete(uri), "{uri}");
    }
}

#[tokio::test]
async fn a_second_keeps_at_most_twenty_and_drops_successes_first() {
    let log = log();
    let key = key("key_1");
    for number in 0..1_000 {
        let code = (number % 100 == 99).then_some(ErrorCode::RateLimited);
        note(&log, &key, number, code, NOON + number as i64 % 1_000);
    }
    let rows = stored(&log).await;
    assert_eq!((count(&rows, false), count(&rows, true)), (10, 10));
    let stands_for: u32 = rows.iter().map(|row| row.request.stands_for).sum();
    assert_eq!(stands_for, 1_000);
    // The kept requests are not simply the first ones.
    assert!(rows.iter().any(|row| !row.request.is_error() && row.at > NOON + 100), "{rows:?}");
    // When every request is an error, some errors are dropped too.
    for number in 1_000..1_050 {
        note(&log, &key, number, Some(ErrorCode::RateLimited), NOON + 1_500);
    }
    let rows = stored(&log).await;
    assert_eq!((count(&rows, false), count(&rows, true)), (10, 30));
}

#[tokio::test]
async fn the_limit_holds_for_each_second_environment_and_replica() {
    let log = log();
    let (test, live) = (key("key_1"), ApiKey { live: true, ..key("key_2") });
    for second in 0..3 {
        for number in 0..100 {
            note(&log, &test, number, None, NOON + second * 1_000 + 10);
        }
        // One request ends late: it counts for the second after its own.
        note(&log, &test, 100, None, NOON + (second - 1) * 1_000);
    }
    for number in 0..100 {
        note(&log, &live, number, None, NOON);
    }
    assert_eq!(stored(&log).await.len(), 60);
    let span = RequestSpan { from: NOON - KEPT_MS, to: NOON + KEPT_MS };
    let live = page(&log.backend, "prj_1/live", span, None, 1_000, |_| true).await.unwrap();
    assert_eq!(live.rows.len(), 20);
    // With ten replicas, each keeps two requests a second.
    log.limit.store(2, Ordering::Relaxed);
    for number in 0..50 {
        note(&log, &test, number, None, NOON + 10_000);
    }
    assert_eq!(stored(&log).await.len(), 62);
}

#[tokio::test]
async fn only_ended_seconds_are_taken_and_nothing_stays_in_memory() {
    let log = log();
    note(&log, &key("key_1"), 1, None, NOON);
    note(&log, &key("key_1"), 2, None, NOON + 1_000);
    let second = NOON / 1_000 + 1;
    let taken = log.take_ended(|ended| ended != second);
    assert_eq!(taken.iter().map(|(_, row)| &*row.id).collect::<Vec<_>>(), ["req_1"]);
    assert_eq!(log.take_ended(|_| true).len(), 1);
    assert!(log.waiting.lock().samples.is_empty());
    // Requests of members in the console are not logged.
    note(&log, &key(&format!("{CONSOLE}prj_1")), 3, None, NOON);
    assert!(log.take_ended(|_| true).is_empty());
}
