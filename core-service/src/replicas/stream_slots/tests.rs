//! Several replicas over one store.

use super::*;
use crate::{
    replicas::members::{GONE_MS, LEASE_MS},
    tests::harness::{ManualClock, SharedMemory, memory},
};

struct Two {
    clock: Arc<ManualClock>,
    store: Arc<SharedMemory>,
    one: Arc<StreamSlots>,
    other: Arc<StreamSlots>,
}

/// The places of a replica that writes heartbeats only on request.
fn slots(backend: SharedBackend, clock: &Arc<ManualClock>, replica: &str) -> Arc<StreamSlots> {
    let members = Members::new(Arc::clone(&backend), clock.clone(), replica.to_owned(), String::new());
    StreamSlots::new(backend, members)
}

async fn two() -> Two {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let replica = |name: &str| slots(store.clone(), &clock, name);
    let (one, other) = (replica("rep_a"), replica("rep_b"));
    one.members.send_heartbeat().await.unwrap();
    other.members.send_heartbeat().await.unwrap();
    Two { clock, store, one, other }
}

async fn is_full(slots: &Arc<StreamSlots>, limit: u32) -> bool {
    match slots.take_slot("prj_1", limit).await {
        Ok(_) => false,
        Err(error) => {
            assert_eq!(error.api.code, ErrorCode::StreamLimitReached);
            assert_eq!(error.api.details, Some(Box::new(serde_json::json!({ "limit": limit, "open": limit }))));
            assert!(error.api.retry_after.is_some());
            true
        }
    }
}

#[tokio::test]
async fn one_replica_needs_no_store() {
    let clock = ManualClock::new();
    let slots = slots(memory(&clock), &clock, "embedded");
    let first = slots.take_slot("prj_1", 1).await.unwrap();
    assert!(is_full(&slots, 1).await);
    assert_eq!(slots.open("prj_1").await.unwrap(), 1);
    drop(first);
    assert_eq!(slots.open("prj_1").await.unwrap(), 0);
    assert!(slots.state.lock().projects.is_empty());
    slots.take_slot("prj_1", 1).await.unwrap();
}

#[tokio::test]
async fn replicas_that_race_never_open_more_than_the_limit() {
    let Two { one, other, .. } = two().await;
    let mut racing = tokio::task::JoinSet::new();
    for number in 0..24 {
        let slots = Arc::clone(if number % 2 == 0 { &one } else { &other });
        racing.spawn(async move { slots.take_slot("prj_1", 5).await.ok() });
    }
    let mut taken: Vec<StreamSlot> = racing.join_all().await.into_iter().flatten().collect();
    assert_eq!(taken.len(), 5);
    assert_eq!((one.open("prj_1").await.unwrap(), other.open("prj_1").await.unwrap()), (5, 5));
    assert!(is_full(&one, 5).await && is_full(&other, 5).await);
    // A larger plan takes effect with the next stream, a smaller one closes none.
    taken.push(one.take_slot("prj_1", 6).await.unwrap());
    // Another project has its own places.
    other.take_slot("prj_2", 1).await.unwrap();
    taken.pop();
    taken.pop();
    one.settle_rows().await;
    other.settle_rows().await;
    assert_eq!(one.open("prj_1").await.unwrap(), 4);
    taken.push(other.take_slot("prj_1", 5).await.unwrap());
    assert!(is_full(&one, 5).await);
    drop(taken);
    one.settle_rows().await;
    other.settle_rows().await;
    assert_eq!((one.open("prj_1").await.unwrap(), other.open("prj_1").await.unwrap()), (0, 0));
    assert!(one.state.lock().projects.is_empty() && other.state.lock().projects.is_empty());
}

#[tokio::test]
async fn a_place_is_told_as_free_when_every_replica_can_give_it() {
    let Two { one, other, .. } = two().await;
    drop(one.take_slot("prj_1", 1).await.unwrap());
    assert!(is_full(&other, 1).await);
    assert_eq!((one.open("prj_1").await.unwrap(), other.open("prj_1").await.unwrap()), (1, 1));
    one.settle_rows().await;
    assert_eq!((one.open("prj_1").await.unwrap(), other.open("prj_1").await.unwrap()), (0, 0));
    other.take_slot("prj_1", 1).await.unwrap();
}

#[tokio::test]
async fn a_dead_replicas_places_return_after_its_lease_and_not_before() {
    let Two { clock, one, other, .. } = two().await;
    let _held = one.take_slot("prj_1", 1).await.unwrap();
    // A replica with heartbeats lives, even if the other slept long.
    clock.advance(60_000);
    one.members.send_heartbeat().await.unwrap();
    other.members.send_heartbeat().await.unwrap();
    assert!(is_full(&other, 1).await);
    clock.advance(GONE_MS - 1);
    other.members.send_heartbeat().await.unwrap();
    assert!(is_full(&other, 1).await);
    clock.advance(1);
    assert_eq!(other.open("prj_1").await.unwrap(), 0);
    other.take_slot("prj_1", 1).await.unwrap();
}

#[tokio::test]
async fn a_replica_that_leaves_gives_its_places_back_at_once() {
    let Two { one, other, .. } = two().await;
    let _held = one.take_slot("prj_1", 1).await.unwrap();
    assert!(is_full(&other, 1).await);
    one.members.leave().await;
    other.take_slot("prj_1", 1).await.unwrap();
}

#[tokio::test]
async fn a_replica_that_cannot_beat_ends_its_streams_before_others_may_take_their_places() {
    let Two { clock, store, one, other } = two().await;
    let held = one.take_slot("prj_1", 1).await.unwrap();
    store.set_away(true);
    clock.advance(LEASE_MS - 1);
    assert!(one.members.send_heartbeat().await.is_err());
    one.members.end_lapsed();
    assert!(!held.term.is_cancelled());
    clock.advance(1);
    one.members.end_lapsed();
    assert!(held.is_lost());
    let refused = one.take_slot("prj_1", 2).await.map(drop).unwrap_err();
    assert_eq!(refused.api.code, ErrorCode::ServiceUnavailable);
    store.set_away(false);
    // The replica begins anew; the old stream still counts until it is closed.
    assert!(is_full(&one, 1).await);
    other.members.send_heartbeat().await.unwrap();
    assert!(is_full(&other, 1).await);
    drop(held);
    let held = one.take_slot("prj_1", 1).await.unwrap();
    // A replica that slept too long notices it with its next heartbeat at the latest.
    clock.advance(LEASE_MS);
    one.members.send_heartbeat().await.unwrap();
    assert!(held.is_lost());
}

#[tokio::test]
async fn what_could_not_be_given_back_is_given_back_later() {
    let Two { store, one, other, .. } = two().await;
    let held = one.take_slot("prj_1", 1).await.unwrap();
    store.set_away(true);
    drop(held);
    one.settle_rows().await;
    assert!(one.take_slot("prj_1", 1).await.is_err());
    store.set_away(false);
    assert!(is_full(&other, 1).await);
    one.settle_rows().await;
    other.take_slot("prj_1", 1).await.unwrap();
}
