//! Counts of a page of theses, and lookups that concurrent callers share.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::{future::join_all, poll};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::yield_now,
    time::timeout,
};

use super::*;
use crate::{
    domain::observation::{ObservedEngagement, ObservedThesis},
    ingest::settings::UpstreamSettings,
    store::{SharedBackend, schema::UPSTREAM},
    tests::harness::{ManualClock, SharedMemory, core, memory, observed_thesis},
};

/// A URL that refuses connections.
const REFUSING: &str = "http://127.0.0.1:9";

fn thesis(upstream_id: &str, text: &str, likes: i64, changed_at: i64) -> Observation {
    let seen = ObservedThesis { likes: Some(likes), updated_at: changed_at, ..observed_thesis(upstream_id, text) };
    Observation { observed_at: changed_at, revision: Some(changed_at), seen: ObservedThing::Thesis(Box::new(seen)) }
}

fn engagement(upstream_id: &str, likes: i64, changed_at: i64) -> Observation {
    let seen = ObservedEngagement { upstream_id: upstream_id.to_owned(), likes: Some(likes), replies: None };
    Observation { observed_at: changed_at, revision: Some(changed_at), seen: ObservedThing::Engagement(seen) }
}

/// The connector to an upstream with this URL.
async fn connector(store: SharedBackend, clock: &Arc<ManualClock>, url: &str) -> Arc<Upstream> {
    let core = core(store, clock, 1).await;
    let settings = UpstreamSettings {
        url: url.parse().unwrap(),
        token: "token".into(),
        // Long enough for a response on a busy machine.
        timeout: Duration::from_secs(5),
        rps: 1,
        backfill: Duration::ZERO,
        refresh: Duration::ZERO,
    };
    let (shared, datasets, peers) = (Arc::clone(&core.shared), Arc::clone(&core.datasets), Arc::clone(&core.peers));
    Upstream::new(shared, datasets, peers, settings).unwrap()
}

/// Starts an upstream that sends this response to each request. Returns its URL, and the number of requests so far.
async fn counting_upstream(response: String) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&requests);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(socket.read_u8().await.unwrap());
            }
            counted.fetch_add(1, Ordering::SeqCst);
            socket.write_all(response.as_bytes()).await.unwrap();
        }
    });
    (url, requests)
}

#[tokio::test]
async fn concurrent_callers_share_one_request() {
    let profile = json!({"id": "u1", "handle": "@Ada", "updated_at": "2026-01-01T00:00:00.000Z"}).to_string();
    for (status, body, expected) in
        [("200 OK", profile.as_str(), LookupOutcome::Found(None)), ("404 Not Found", "", LookupOutcome::Missing)]
    {
        let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
        let (url, requests) = counting_upstream(head + body).await;
        let clock = ManualClock::new();
        let upstream = connector(memory(&clock), &clock, &url).await;
        // The lookups of other cores come this way too.
        let callers = (0..10).map(|_| upstream.lookup_here(Thing::Handle("ada".to_owned())));
        for outcome in join_all(callers).await {
            assert_eq!(outcome, expected);
        }
        assert_eq!(requests.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_caller_shares_a_miss_that_ended_during_its_read_of_the_store() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let upstream = connector(store.clone(), &clock, REFUSING).await;
    let thing = Thing::Handle("@ada".to_owned());
    let held = store.hold().await;
    let mut lookup = pin!(upstream.lookup_here(thing.clone()));
    assert!(poll!(&mut lookup).is_pending());
    upstream.cache_outcome(&thing, &LookupOutcome::Missing);
    drop(held);
    assert_eq!(lookup.await, LookupOutcome::Missing);
}

#[tokio::test]
async fn an_older_outcome_of_the_store_does_not_replace_one_that_came_during_its_read() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let upstream = connector(store.clone(), &clock, REFUSING).await;
    let thing = Thing::Handle("@ada".to_owned());
    upstream.store_outcome(&thing, &LookupOutcome::Missing).await;
    clock.advance(10 * MINUTE_MS);
    let held = store.hold().await;
    let mut lookup = pin!(upstream.lookup_here(thing.clone()));
    assert!(poll!(&mut lookup).is_pending());
    upstream.cache_outcome(&thing, &LookupOutcome::Found(None));
    drop(held);
    assert_eq!(lookup.await, LookupOutcome::Found(None));
}

#[tokio::test]
async fn a_caller_shares_a_lookup_that_ended_after_its_read_of_the_store() {
    let clock = ManualClock::new();
    let upstream = connector(memory(&clock), &clock, REFUSING).await;
    let thing = Thing::Handle("@ada".to_owned());
    upstream.store_outcome(&thing, &LookupOutcome::Found(None)).await;
    assert_eq!(upstream.lookup_here(Thing::Handle("ADA".to_owned())).await, LookupOutcome::Found(None));
    let resync = Thing::Resync(v1::Resync::default());
    upstream.store_outcome(&resync, &LookupOutcome::Found(None)).await;
    assert!(matches!(upstream.lookup_here(resync).await, LookupOutcome::Unavailable { .. }), "each re-sync is sent");
    clock.advance(1_000);
    assert!(matches!(upstream.lookup_here(thing).await, LookupOutcome::Unavailable { .. }), "the outcome is old");
}

#[tokio::test]
async fn the_leading_core_reads_the_stored_outcome_once() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let upstream = connector(store.clone(), &clock, REFUSING).await;
    let leading = async {
        while !upstream.leads() {
            yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), leading).await.unwrap();
    let before = store.calls(&UPSTREAM);
    let outcome = upstream.lookup(Thing::Handle("@ada".to_owned())).await;
    assert!(matches!(outcome, LookupOutcome::Unavailable { .. }), "{outcome:?}");
    assert_eq!(store.calls(&UPSTREAM) - before, 1);
}

#[tokio::test]
async fn a_page_misses_only_changes_that_no_frame_brought() {
    let clock = ManualClock::new();
    let upstream = connector(memory(&clock), &clock, REFUSING).await;
    let counts = async |seen: Observation| {
        let mut result = v1::PageResult::default();
        upstream.apply_theses(vec![Ok(vec![seen])], &mut result).await.unwrap();
        (result.applied, result.missed_by_feed)
    };
    let receive = async |frame: Observation| assert!(upstream.intake.apply(&[frame]).await.unwrap()[0].applied);

    receive(thesis("post", "text", 0, 2_000)).await;
    receive(engagement("post", 1, 3_000)).await;
    // The page dates the thesis by its engagement, which the feed sent alone.
    assert_eq!(counts(thesis("post", "text", 1, 3_000)).await, (1, 0));
    assert_eq!(counts(thesis("post", "text", 1, 3_000)).await, (0, 0));
    assert_eq!(counts(thesis("post", "text", 2, 4_000)).await, (1, 1), "the feed sent no engagement");
    receive(engagement("post", 3, 6_000)).await;
    assert_eq!(counts(thesis("post", "another text", 3, 6_000)).await, (1, 1), "the feed sent no edit");
    assert_eq!(counts(thesis("other post", "text", 0, 2_000)).await, (1, 1), "the feed sent no thesis");
    let deletion = ObservedThing::Deletion("post".to_owned());
    let deletion = Observation { observed_at: 7_000, revision: Some(7_000), seen: deletion };
    assert_eq!(counts(deletion).await, (1, 1), "the feed sent no deletion");
    assert_eq!(counts(thesis("young post", "text", 0, upstream.now_ms())).await, (1, 0), "the feed may still send it");
}
