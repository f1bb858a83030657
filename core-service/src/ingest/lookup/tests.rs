//! Counts of a page of theses, and lookups that concurrent callers share.

use std::time::Duration;

use super::*;
use crate::{
    domain::observation::{ObservedEngagement, ObservedThesis},
    ingest::settings::UpstreamSettings,
    tests::harness::{ManualClock, core, memory, observed_thesis},
};

fn thesis(upstream_id: &str, text: &str, likes: i64, changed_at: i64) -> Observation {
    let seen = ObservedThesis { likes: Some(likes), updated_at: changed_at, ..observed_thesis(upstream_id, text) };
    Observation { observed_at: changed_at, revision: Some(changed_at), seen: ObservedThing::Thesis(Box::new(seen)) }
}

fn engagement(upstream_id: &str, likes: i64, changed_at: i64) -> Observation {
    let seen = ObservedEngagement { upstream_id: upstream_id.to_owned(), likes: Some(likes), replies: None };
    Observation { observed_at: changed_at, revision: Some(changed_at), seen: ObservedThing::Engagement(seen) }
}

/// An upstream that refuses connections.
async fn refusing_upstream(clock: &Arc<ManualClock>) -> Arc<Upstream> {
    let core = core(memory(clock), clock, 1).await;
    let settings = UpstreamSettings {
        url: "http://127.0.0.1:9".parse().unwrap(),
        token: "token".into(),
        timeout: Duration::from_secs(1),
        rps: 1,
        backfill: Duration::ZERO,
        refresh: Duration::ZERO,
    };
    let (shared, datasets, peers) = (Arc::clone(&core.shared), Arc::clone(&core.datasets), Arc::clone(&core.peers));
    Upstream::new(shared, datasets, peers, settings).unwrap()
}

#[tokio::test]
async fn a_caller_shares_a_lookup_that_ended_after_its_read_of_the_store() {
    let clock = ManualClock::new();
    let upstream = refusing_upstream(&clock).await;
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
async fn a_page_misses_only_changes_that_no_frame_brought() {
    let clock = ManualClock::new();
    let upstream = refusing_upstream(&clock).await;
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
