//! Several replicas over one store.

use super::*;
use crate::{
    replicas::members::{GONE_MS, LEASE_MS},
    store::schema,
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

async fn read_beats(slots: &Arc<StreamSlots>) {
    slots.members.read_beats(std::iter::empty()).await.unwrap();
}

/// Two replicas that know of each other.
async fn two_acquainted() -> Two {
    let two = two().await;
    read_beats(&two.one).await;
    read_beats(&two.other).await;
    two
}

/// Lets a replica give back the places that it does not need after two quiet seconds.
async fn be_quiet(slots: &Arc<StreamSlots>) {
    slots.state.lock().trim_blocks();
    slots.state.lock().trim_blocks();
    slots.settle_rows().await;
}

/// Opens streams until the plan allows no more.
async fn fill(slots: &Arc<StreamSlots>, limit: u32) -> Vec<StreamSlot> {
    let mut taken = Vec::new();
    while let Ok(slot) = slots.take_slot("prj_1", limit).await {
        taken.push(slot);
    }
    taken
}

async fn take(slots: &Arc<StreamSlots>, project: &str, number: usize, limit: u32) -> Vec<StreamSlot> {
    let mut taken = Vec::new();
    for _ in 0..number {
        taken.push(slots.take_slot(project, limit).await.unwrap());
    }
    taken
}

#[tokio::test]
async fn one_lease_is_for_many_openings_and_closings() {
    let Two { store, one, other, .. } = two_acquainted().await;
    let requests = || store.partition_requests(&schema::STREAM_SLOTS);
    // A place, and a third of 160 for the first block of two replicas.
    let mut taken = take(&one, "prj_1", 54, 160).await;
    assert_eq!(requests(), 2, "a read and a conditional write");
    // The share is a sixteenth.
    assert_eq!((one.open("prj_1").await.unwrap(), other.open("prj_1").await.unwrap()), (54, 44));
    taken.truncate(1);
    one.state.lock().trim_blocks();
    assert!(one.state.lock().unsettled.is_empty(), "the block stays while streams use it");
    be_quiet(&one).await;
    assert_eq!((one.open("prj_1").await.unwrap(), other.open("prj_1").await.unwrap()), (1, 0));
    let before = requests();
    taken.extend(take(&one, "prj_1", 5, 160).await);
    taken.truncate(1);
    assert!(one.state.lock().unsettled.is_empty(), "no more than the share are free");
    assert_eq!(requests(), before);
    drop(taken);
    one.settle_rows().await;
    assert_eq!(other.open("prj_1").await.unwrap(), 0);
    assert!(one.state.lock().projects.is_empty());
}

#[tokio::test]
async fn a_block_goes_back_after_a_while_although_streams_use_it() {
    let Two { one, .. } = two_acquainted().await;
    let mut taken = Vec::new();
    for second in 1..=10 {
        taken.extend(take(&one, "prj_1", 1, 160).await);
        assert!(one.state.lock().unsettled.is_empty(), "second {second}");
        one.state.lock().trim_blocks();
    }
    assert!(one.state.lock().unsettled.contains("prj_1") && one.state.lock().blocks.is_empty());
}

#[tokio::test]
async fn two_replicas_exceed_a_limit_by_a_sixteenth_at_most_and_refuse_no_stream_below_it() {
    const LIMIT: u32 = 160;
    let Two { one, other, .. } = two_acquainted().await;
    // The numbers of streams that one replica opens before the other does.
    for first in [0, 1, 10, 80, 149, 150, 160] {
        let mut taken = take(&one, "prj_1", first, LIMIT).await;
        let mut refused = 0;
        for number in 0..2 * LIMIT {
            let slots = if number % 3 == 0 { &one } else { &other };
            match slots.take_slot("prj_1", LIMIT).await {
                Ok(slot) => taken.push(slot),
                Err(error) => {
                    assert_eq!(error.api.code, ErrorCode::StreamLimitReached);
                    assert!(taken.len() >= 160, "refused with {} open", taken.len());
                    refused += 1;
                }
            }
        }
        assert!(refused > 0 && taken.len() <= 170, "{first} first: {} open", taken.len());
        drop(taken);
        one.settle_rows().await;
        other.settle_rows().await;
    }
    assert!(one.state.lock().projects.is_empty() && other.state.lock().projects.is_empty());
}

#[tokio::test]
async fn a_small_plan_is_exact_when_a_second_replica_joins() {
    let Two { one, other, .. } = two().await;
    // One replica alone has a block of five places.
    let _first = take(&one, "prj_1", 1, 10).await;
    read_beats(&one).await;
    read_beats(&other).await;
    let mut second = fill(&other, 10).await;
    assert_eq!(second.len(), 4, "places of the first one count");
    one.reduce_shares(|_| Some(10));
    one.settle_rows().await;
    second.extend(fill(&other, 10).await);
    assert_eq!(second.len(), 9);
    assert!(is_full(&one, 10).await && is_full(&other, 10).await);
}

#[tokio::test]
async fn replicas_that_start_together_keep_the_bound() {
    let (clock, mut taken) = (ManualClock::new(), Vec::new());
    let store = SharedMemory::new(&clock);
    let replicas: Vec<_> = (0..8).map(|number| slots(store.clone(), &clock, &format!("rep_{number}"))).collect();
    for slots in &replicas {
        slots.members.send_heartbeat().await.unwrap();
    }
    for _ in 0..96 {
        for slots in &replicas {
            taken.extend(slots.take_slot("prj_1", 96).await.ok());
        }
    }
    let most = 96 + 7 * 96 / 64;
    assert!(taken.len() <= most, "{}", taken.len());
    for slots in &replicas {
        read_beats(slots).await;
        slots.reduce_shares(|_| Some(96));
        be_quiet(slots).await;
    }
    for slots in &replicas {
        taken.extend(fill(slots, 96).await);
    }
    assert!((96..=most).contains(&taken.len()), "{}", taken.len());
}

#[tokio::test]
async fn a_plan_that_becomes_small_is_exact_and_usable_everywhere() {
    let Two { one, other, .. } = two_acquainted().await;
    let _first = take(&one, "prj_1", 1, 100).await;
    assert!(other.take_slot("prj_1", 2).await.is_err(), "the block is for more than two streams");
    one.reduce_shares(|_| Some(2));
    one.settle_rows().await;
    let second = fill(&other, 2).await;
    assert_eq!(second.len(), 1);
    assert!(is_full(&one, 2).await && is_full(&other, 2).await);
}

#[tokio::test]
async fn one_replica_alone_keeps_the_limit_exactly() {
    let Two { one, .. } = two().await;
    let mut taken = take(&one, "prj_1", 160, 160).await;
    assert!(is_full(&one, 160).await);
    taken.pop();
    taken.push(one.take_slot("prj_1", 160).await.unwrap());
    assert!(is_full(&one, 160).await);
    // A smaller plan counts from the next stream on, although places are leased.
    taken.truncate(100);
    assert!(is_full(&one, 100).await);
}

#[tokio::test]
async fn ten_thousand_streams_of_ten_projects_come_back_with_few_requests() {
    const LIMIT: u32 = 1_000;
    let Two { store, one, other, .. } = two_acquainted().await;
    let (mut taken, mut before) = (Vec::new(), 0);
    for _ in 0..2 {
        // Closings come together when an edge ends.
        taken.clear();
        one.settle_rows().await;
        other.settle_rows().await;
        for number in 0..10_000 {
            let slots = if number % 20 < 10 { &one } else { &other };
            taken.push(slots.take_slot(&format!("prj_{}", number % 10), LIMIT).await.unwrap());
        }
        let requests = store.partition_requests(&schema::STREAM_SLOTS) - before;
        println!("{requests} requests to the store for 10,000 openings");
        assert!(requests <= 200, "{requests}");
        before += requests;
    }
}

#[tokio::test]
async fn ten_replicas_fill_the_plans_of_ten_projects_with_few_requests() {
    const LIMIT: u32 = 1_000;
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let replicas: Vec<_> = (0..10).map(|number| slots(store.clone(), &clock, &format!("rep_{number}"))).collect();
    for slots in &replicas {
        slots.members.send_heartbeat().await.unwrap();
    }
    for slots in &replicas {
        read_beats(slots).await;
    }
    let mut taken = Vec::new();
    for number in 0..10_000 {
        let slots = &replicas[number / 10 % 10];
        taken.push(slots.take_slot(&format!("prj_{}", number % 10), LIMIT).await.unwrap());
    }
    let requests = store.partition_requests(&schema::STREAM_SLOTS);
    assert_eq!(requests, 500, "25 leases a project, two requests each");
}

#[tokio::test]
async fn leased_places_end_with_the_heartbeat() {
    let Two { clock, store, one, other } = two_acquainted().await;
    let held = one.take_slot("prj_1", 160).await.unwrap();
    clock.advance(LEASE_MS);
    one.members.send_heartbeat().await.unwrap();
    assert!(held.is_lost());
    let before = store.partition_requests(&schema::STREAM_SLOTS);
    let again = one.take_slot("prj_1", 160).await.unwrap();
    assert!(!again.is_lost());
    assert_eq!(store.partition_requests(&schema::STREAM_SLOTS), before + 2, "the places are leased anew");
    // Nothing remains of a replica that was killed.
    clock.advance(GONE_MS);
    other.members.send_heartbeat().await.unwrap();
    other.members.read_beats(std::iter::empty()).await.unwrap();
    clock.advance(GONE_MS);
    other.members.send_heartbeat().await.unwrap();
    assert_eq!(other.open("prj_1").await.unwrap(), 0);
    assert_eq!(take(&other, "prj_1", 160, 160).await.len(), 160);
}
