//! Several replicas, each with its own counts, over one store.

use std::sync::Arc;

use super::*;
use crate::{
    domain::abuse::KEPT_MS,
    store::schema,
    tables::abuse::list,
    tests::harness::{ManualClock, NOON, SharedMemory, memory},
};

const PLENTY: u32 = 1_000;

fn replicas(backend: &Arc<SharedMemory>) -> [Limits; 2] {
    let backend: SharedBackend = backend.clone();
    [Limits::new(&backend, "rep_a"), Limits::new(&backend, "rep_b")]
}

async fn exchange(limits: &Limits, now_ms: i64) {
    limits.rates.0.exchange_due(now_ms).await;
    limits.failures.0.exchange_due(now_ms).await;
    limits.quota.counts.exchange_due(now_ms).await;
}

#[tokio::test]
async fn a_window_allows_its_limit_and_starts_anew_each_minute() {
    let limits = Limits::new(&memory(&ManualClock::new()), "embedded");
    let project: Arc<str> = "prj_1".into();
    let take = |now| limits.rates.take(&project, false, RateClass::Heavy, 2, now);
    assert_eq!((take(59_000).remaining, take(59_001).remaining), (1, 0));
    let refused = take(59_999);
    assert_eq!((refused.allowed, refused.remaining, refused.reset), (false, 0, 60));
    assert!(take(60_000).allowed);
    let live = limits.rates.take(&project, true, RateClass::Heavy, 2, 60_000);
    assert_eq!(live.remaining, 1, "environments count apart");
    limits.sweep(60_000);
    assert_eq!(limits.rates.0.size(), 2);
}

#[tokio::test]
async fn versions_grow_with_time_so_that_the_store_can_forget_what_expired() {
    let store = SharedMemory::new(&ManualClock::new());
    let [one, _] = replicas(&store);
    let backend: SharedBackend = store;
    let project: Arc<str> = "prj_1".into();
    let mut newest = 0;
    for now in [NOON, NOON + 1_000, NOON + 1_001] {
        one.rates.take(&project, false, RateClass::Standard, PLENTY, now);
        one.rates.0.exchange_all(now).await;
        let window = RateWindows::window(&project, false, RateClass::Standard, now);
        let rows = CountTable::minutes(MINUTE_KEPT).read(&backend, window.partition()).await.unwrap();
        assert!(rows[0].version >= now && rows[0].version > newest, "{}", rows[0].version);
        newest = rows[0].version;
    }
}

#[test]
fn months_are_utc() {
    let month = Month::of(1_767_225_599_999);
    assert_eq!((&*month.name, month.end), ("2025-12", 1_767_225_600_000));
    assert_eq!(&*Month::of(month.end).name, "2026-01");
    assert_eq!(Month::of(month.start), month);
}

#[tokio::test]
async fn the_twenty_first_failure_in_a_minute_is_too_many() {
    let limits = Limits::new(&memory(&ManualClock::new()), "embedded");
    let record = |address, now| limits.failures.record(address, now);
    assert!((0..20).all(|_| record("192.0.2.1", 5)));
    assert!(!record("192.0.2.1", 6));
    assert!(record("192.0.2.2", 6));
    assert!(record("192.0.2.1", MINUTE_MS));
    limits.failures.close(MINUTE_MS + SETTLED_MS).await;
    assert_eq!(limits.failures.0.size(), 1);
}

#[tokio::test]
async fn a_48_of_ipv6_has_sixteen_times_the_limit_of_a_64() {
    let backend = memory(&ManualClock::new());
    let limits = Limits::new(&backend, "embedded");
    let record = |network: u16| limits.failures.record(&format!("2001:db8:1:{network:x}::/64"), NOON);
    // Failures that the limit of a /64 refuses do not count in its /48.
    for network in 0..16 {
        assert_eq!((0..100).filter(|_| record(network)).count(), 20, "{network}");
    }
    assert!((16..400).all(|network| !record(network)));
    assert!(limits.failures.record("2001:db8:2:0::/64", NOON));
    assert!(limits.failures.record("192.0.2.1", NOON));
    limits.flush(NOON).await;
    let known = abuse(&backend, NOON).await;
    let wide = known.iter().find(|(address, ..)| address == "2001:db8:1::/48").unwrap();
    assert_eq!((known.len(), wide.1), (17, 320 + 384));
}

#[tokio::test]
async fn replicas_overshoot_a_window_by_what_arrives_between_two_exchanges() {
    let [one, other] = replicas(&SharedMemory::new(&ManualClock::new()));
    let project: Arc<str> = "prj_1".into();
    let take = |limits: &Limits, now| limits.rates.take(&project, false, RateClass::Standard, 100, now).allowed;
    let mut admitted = 0;
    // One request a millisecond at each, exchanged every 100 ms, a little late and not together.
    for now in NOON..NOON + 1_000 {
        admitted += u32::from(take(&one, now)) + u32::from(take(&other, now));
        if now % 100 == 20 {
            exchange(&one, now).await;
        }
        if now % 100 == 70 {
            exchange(&other, now).await;
        }
    }
    assert!((100..=100 + 2 * 300).contains(&admitted), "{admitted}");
    let after = NOON + 1_000;
    assert!(!take(&one, after) && !take(&other, after));
    let known = one.rates.fresh(&project, false, RateClass::Standard, PLENTY, after).await;
    assert_eq!(known.remaining, PLENTY - admitted);
}

#[tokio::test]
async fn replicas_count_failures_of_an_address_together() {
    let store = SharedMemory::new(&ManualClock::new());
    let [one, other] = replicas(&store);
    let mut passed = 0;
    for step in 0..40 {
        let now = NOON + step * 150;
        for limits in [&one, &other] {
            passed += u64::from(limits.failures.record("192.0.2.1", now));
            exchange(limits, now).await;
        }
    }
    assert!((20..=21).contains(&passed), "{passed}");
    // A single failure is not worth a write.
    one.failures.record("192.0.2.2", NOON);
    exchange(&one, NOON).await;
    let key = Failures { address: "192.0.2.2".into(), minute: NOON / MINUTE_MS };
    let backend: SharedBackend = store;
    let rows = CountTable::minutes(0).read(&backend, key.partition()).await.unwrap();
    assert!(rows.is_empty());
}

#[tokio::test]
async fn a_store_that_is_away_neither_stops_nor_loses_counts() {
    let store = SharedMemory::new(&ManualClock::new());
    let [one, other] = replicas(&store);
    let project: Arc<str> = "prj_1".into();
    let take = |limits: &Limits, now| limits.rates.take(&project, false, RateClass::Standard, 10, now).allowed;
    store.set_away(true);
    for _ in 0..4 {
        assert!(take(&one, NOON) && take(&other, NOON));
        assert!(one.quota.take("org_1", 100, NOON).await && other.quota.take("org_1", 100, NOON).await);
        exchange(&one, NOON).await;
    }
    assert_eq!(one.quota.used("org_1", NOON).await, 4);
    store.set_away(false);
    exchange(&one, NOON).await;
    exchange(&other, NOON).await;
    assert_eq!((one.quota.used("org_1", NOON).await, other.quota.used("org_1", NOON).await), (8, 8));
    for limits in [&one, &other] {
        let known = limits.rates.fresh(&project, false, RateClass::Standard, 10, NOON).await;
        assert_eq!(known.remaining, 2);
    }
}

#[tokio::test]
async fn a_small_quota_is_exact_over_replicas() {
    let [one, other] = replicas(&SharedMemory::new(&ManualClock::new()));
    let mut admitted = 0;
    for _ in 0..6 {
        for limits in [&one, &other] {
            admitted += u64::from(limits.quota.take("org_1", 5, NOON).await);
        }
    }
    assert_eq!(admitted, 5);
    // Refused requests are taken back with the next exchange.
    exchange(&one, NOON + 1_000).await;
    exchange(&other, NOON + 1_000).await;
    assert_eq!((one.quota.used("org_1", NOON).await, other.quota.used("org_1", NOON).await), (5, 5));
    assert_eq!(one.quota.used("org_2", NOON).await, 0);
}

#[tokio::test]
async fn replicas_overshoot_a_quota_by_less_than_a_thousandth() {
    const LIMIT: u64 = 32_000;
    let [one, other] = replicas(&SharedMemory::new(&ManualClock::new()));
    let use_up = async |limits: &Limits| {
        let mut admitted = 0;
        while limits.quota.take("org_1", LIMIT, NOON).await {
            admitted += 1;
        }
        admitted
    };
    let (here, there): (u64, u64) = tokio::join!(use_up(&one), use_up(&other));
    // A request that one replica is just refusing counts at the other, which may then refuse the last that fits.
    assert!((LIMIT - 1..=LIMIT + LIMIT / 1_000).contains(&(here + there)), "{here} + {there}");
    assert!(here > 0 && there > 0);
    exchange(&other, NOON + 1_000).await;
    assert_eq!(one.quota.used("org_1", NOON).await, here + there);
}

#[tokio::test]
async fn usage_survives_a_restart() {
    let backend = memory(&ManualClock::new());
    let before = Limits::new(&backend, "embedded");
    for _ in 0..3 {
        assert!(before.quota.take("org_1", 5, NOON).await);
    }
    before.flush(NOON).await;
    let after = Limits::new(&backend, "embedded");
    assert!(after.quota.take("org_1", 5, NOON).await);
    assert_eq!(after.quota.used("org_1", NOON).await, 4);
    assert!(after.quota.take("org_1", 5, NOON).await);
    assert!(!after.quota.take("org_1", 5, NOON).await);
    after.flush(NOON).await;
    let last = Limits::new(&backend, "embedded");
    assert!(!last.quota.take("org_1", 5, NOON).await);
    // The next month begins at zero.
    let next = Month::of(NOON).end;
    assert!(last.quota.take("org_1", 5, next).await);
    last.sweep(next);
    assert_eq!((last.quota.used("org_1", next).await, last.quota.counts.size()), (1, 1));
}

/// The listed addresses: each with its failures, and the times of the first and the last.
async fn abuse(backend: &SharedBackend, now_ms: i64) -> Vec<(String, u64, i64, i64)> {
    let rows = list(backend, None, now_ms, 100).await.unwrap();
    rows.into_iter().map(|row| (row.address, row.failures, row.first_at, row.last_at)).collect()
}

#[tokio::test]
async fn addresses_with_twenty_failures_in_a_minute_are_kept_for_thirty_days() {
    let clock = ManualClock::new();
    let backend = memory(&clock);
    let limits = Limits::new(&backend, "embedded");
    let fail = |address: &str, times: i64, from: i64| {
        for number in 0..times {
            limits.failures.record(address, from + number);
        }
    };
    fail("192.0.2.1", 19, NOON);
    fail("192.0.2.2", 20, NOON);
    limits.flush(NOON + 100).await;
    let first = ("192.0.2.2".to_owned(), 20, NOON + 19, NOON + 19);
    assert_eq!(abuse(&backend, NOON + 100).await, [first]);
    // Refused failures count too, at once and after the minute. Another minute counts only if it is as bad.
    fail("192.0.2.2", 5, NOON + 200);
    limits.flush(NOON + 300).await;
    limits.failures.close(NOON + MINUTE_MS + SETTLED_MS).await;
    fail("192.0.2.2", 19, NOON + MINUTE_MS);
    limits.failures.close(NOON + 2 * MINUTE_MS + SETTLED_MS).await;
    fail("192.0.2.2", 30, NOON + 2 * MINUTE_MS);
    limits.flush(NOON + 2 * MINUTE_MS).await;
    let last_at = NOON + 2 * MINUTE_MS + 29;
    let known = [("192.0.2.2".to_owned(), 55, NOON + 19, last_at)];
    assert_eq!(abuse(&backend, last_at).await, known);
    // A restart adds to the count.
    let after = Limits::new(&backend, "embedded");
    let later = NOON + 10 * MINUTE_MS;
    for _ in 0..25 {
        after.failures.record("192.0.2.2", later);
    }
    after.flush(later).await;
    let known = [("192.0.2.2".to_owned(), 80, NOON + 19, later)];
    assert_eq!(abuse(&backend, later + KEPT_MS - 1).await, known);
    assert!(abuse(&backend, later + KEPT_MS).await.is_empty());
}

#[tokio::test]
async fn replicas_add_up_what_each_saw_of_an_address() {
    let store = SharedMemory::new(&ManualClock::new());
    let [one, other] = replicas(&store);
    for number in 0..13 {
        for limits in [&one, &other] {
            limits.failures.record("192.0.2.1", NOON + number * 150);
            exchange(limits, NOON + number * 150).await;
        }
    }
    // One failure comes early in the minute, and all others at the other replica. The first replica does not read them.
    for number in 0..5 {
        one.failures.record("192.0.2.2", NOON + number);
    }
    exchange(&one, NOON + 5_000).await;
    for number in 0..20 {
        other.failures.record("192.0.2.2", NOON + 30_000 + number);
    }
    exchange(&other, NOON + 31_000).await;
    for limits in [&one, &other] {
        limits.failures.close(NOON + MINUTE_MS + SETTLED_MS).await;
        limits.flush(NOON + MINUTE_MS).await;
    }
    let backend: SharedBackend = store;
    let mut known = abuse(&backend, NOON + MINUTE_MS).await;
    known.sort();
    assert_eq!(known.iter().map(|(_, failures, ..)| *failures).collect::<Vec<_>>(), [26, 25], "{known:?}");
}

#[tokio::test]
async fn a_flood_from_many_addresses_is_no_flood_of_writes() {
    let store = SharedMemory::new(&ManualClock::new());
    let [limits, _] = replicas(&store);
    for address in 0..5_000 {
        for _ in 0..20 {
            limits.failures.record(&format!("{address}"), NOON);
        }
    }
    for second in 1..60 {
        limits.failures.1.flush(NOON + second * 1_000).await;
    }
    let written = store.applied(&schema::ABUSE);
    assert!((1_000..=1_200).contains(&written), "{written}");
    // A second write of an address waits for the first of all others.
    let backend: SharedBackend = store;
    assert_eq!(list(&backend, None, NOON, 5_000).await.unwrap().len(), written);
    // Pages follow each other, the latest first.
    let all = list(&backend, None, NOON, 5_000).await.unwrap();
    assert!(all.is_sorted_by(|newer, older| (newer.last_at, &newer.address) > (older.last_at, &older.address)));
    let after = (all[9].last_at, all[9].address.clone());
    assert_eq!(list(&backend, Some(&after), NOON, 10).await.unwrap(), all[10..20]);
}

#[tokio::test]
async fn far_from_its_limits_a_request_costs_the_store_next_to_nothing() {
    const LIMIT: u32 = 1_200;
    let store = SharedMemory::new(&ManualClock::new());
    let [one, other] = replicas(&store);
    let project: Arc<str> = "prj_1".into();
    let calls = || store.calls(&schema::MINUTE_COUNT) + store.calls(&schema::USAGE);
    // Ten requests a second for half a minute, with looks as often as a core's.
    let mut requests = 0;
    for now in (NOON..NOON + 30_000).step_by(25) {
        if now % 100 == 0 {
            assert!(one.rates.take(&project, false, RateClass::Standard, LIMIT, now).allowed);
            assert!(one.quota.take("org_1", 10_000_000, now).await);
            requests += 1;
        }
        exchange(&one, now).await;
    }
    println!("{requests} requests cost {} calls", calls());
    assert!(calls() * 4 <= requests, "{} calls for {requests} requests", calls());
    // The other replica knows all of them within two seconds.
    let later = NOON + 32_000;
    exchange(&one, later).await;
    assert_eq!(other.quota.used("org_1", later).await, 300);
    let known = other.rates.fresh(&project, false, RateClass::Standard, LIMIT, later).await;
    assert_eq!(known.remaining, LIMIT - 300);
}

#[tokio::test]
async fn a_replica_keeps_little_of_the_rest_to_itself() {
    let [one, other] = replicas(&SharedMemory::new(&ManualClock::new()));
    let project: Arc<str> = "prj_1".into();
    let take = |limits: &Limits, now| limits.rates.take(&project, false, RateClass::Standard, 1_600, now);
    exchange(&other, NOON).await;
    assert!(take(&one, NOON).allowed && take(&other, NOON).allowed);
    exchange(&one, NOON).await;
    exchange(&other, NOON).await;
    // A burst between two checks, of more than a sixteenth of the requests left: the next due check stores it.
    for _ in 0..150 {
        assert!(take(&one, NOON + 10).allowed);
    }
    exchange(&one, NOON + 110).await;
    let known = other.rates.fresh(&project, false, RateClass::Standard, 1_600, NOON + 120).await;
    assert_eq!(known.remaining, 1_600 - 152);
}

#[tokio::test]
async fn a_window_is_used_up_at_its_limit() {
    let limits = Limits::new(&memory(&ManualClock::new()), "embedded");
    let (rates, project): (_, Arc<str>) = (&limits.rates, "prj_1".into());
    assert!((0..2).all(|_| rates.take(&project, false, RateClass::Heavy, 2, NOON).allowed));
    for (limit, remaining, allowed) in [(1, 0, false), (2, 0, false), (3, 1, true)] {
        let known = rates.peek(&project, false, RateClass::Heavy, limit, NOON);
        assert_eq!((known.limit, known.remaining, known.allowed), (limit, remaining, allowed));
        assert_eq!(rates.fresh(&project, false, RateClass::Heavy, limit, NOON).await, known);
    }
}

#[tokio::test]
async fn a_project_has_ten_sends_a_minute() {
    let limits = Limits::new(&memory(&ManualClock::new()), "embedded");
    let sends = &limits.sends;
    assert!((0..10).all(|_| !sends.is_used_up("prj_1", NOON) && sends.take("prj_1", NOON)));
    assert!(sends.is_used_up("prj_1", NOON) && !sends.take("prj_1", NOON));
    assert!(sends.take("prj_2", NOON) && sends.take("prj_1", NOON + MINUTE_MS));
}
