use super::*;

const NOW: i64 = 1_700_000_000_000;

fn go(pace: &mut Pace, now: i64) {
    assert_eq!(pace.admit(LookupPurpose::OnDemand, now), Admission::Go);
}

fn fail(pace: &mut Pace, times: u32, now: i64) {
    for _ in 0..times {
        pace.failed(None, now);
    }
}

/// The lookups that are admitted now.
fn admitted(pace: &mut Pace, purpose: LookupPurpose, now: i64) -> u32 {
    let mut count = 0;
    while pace.admit(purpose, now) == Admission::Go {
        count += 1;
    }
    count
}

#[test]
fn a_bucket_of_one_second() {
    let mut pace = Pace::new(20, NOW);
    assert_eq!(admitted(&mut pace, LookupPurpose::OnDemand, NOW), 20);
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW), Admission::Spent { ms: 50 });
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW + 49), Admission::Spent { ms: 1 });
    go(&mut pace, NOW + 50);
    assert_eq!(admitted(&mut pace, LookupPurpose::OnDemand, NOW + 100), 1);
    assert_eq!(admitted(&mut pace, LookupPurpose::OnDemand, NOW + 600), 10);
    assert_eq!(admitted(&mut pace, LookupPurpose::OnDemand, NOW + 3_600_000), 20);
    // Over ten minutes it is exact.
    let start = NOW + 3_600_000;
    let count: u32 = (1..=600_000).step_by(7).map(|ms| admitted(&mut pace, LookupPurpose::OnDemand, start + ms)).sum();
    assert!((11_999..=12_000).contains(&count), "{count}");
}

#[test]
fn backfill_leaves_a_quarter() {
    let mut pace = Pace::new(20, NOW);
    assert_eq!(admitted(&mut pace, LookupPurpose::Backfill, NOW), 15);
    assert_eq!(pace.admit(LookupPurpose::Backfill, NOW), Admission::Spent { ms: 50 });
    assert_eq!(admitted(&mut pace, LookupPurpose::OnDemand, NOW), 5);
    assert_eq!(pace.admit(LookupPurpose::Backfill, NOW), Admission::Spent { ms: 300 });
    assert_eq!(admitted(&mut pace, LookupPurpose::Backfill, NOW + 300), 1);
    for rps in [0, 1] {
        assert_eq!(
            admitted(&mut Pace::new(rps, NOW), LookupPurpose::Backfill, NOW),
            1,
            "a small bucket still gives one"
        );
    }
    go(&mut Pace::new(u32::MAX, NOW), NOW);
}

#[test]
fn five_failures_in_a_row_open_the_breaker() {
    let mut pace = Pace::new(100, NOW);
    for _ in 0..3 {
        fail(&mut pace, 4, NOW);
        assert_eq!(pace.breaker(NOW), Breaker::Closed);
        pace.succeeded(NOW);
    }
    fail(&mut pace, 5, NOW);
    assert_eq!((pace.breaker(NOW), pace.breaker(NOW + 4_999)), (Breaker::Open, Breaker::Open));
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW), Admission::Held { ms: 5_000 });
    // Lookups that began before change nothing.
    pace.succeeded(NOW + 1);
    fail(&mut pace, 5, NOW + 1_000);
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW + 4_999), Admission::Held { ms: 1 });
    assert_eq!(pace.breaker(NOW + 5_000), Breaker::HalfOpen);
    go(&mut pace, NOW + 5_000);
    assert_eq!(pace.breaker(NOW + 5_001), Breaker::HalfOpen);
    assert!(matches!(pace.admit(LookupPurpose::OnDemand, NOW + 5_001), Admission::Held { .. }), "only one is tried");
    pace.succeeded(NOW + 5_100);
    assert_eq!(pace.breaker(NOW + 5_100), Breaker::Closed);
    fail(&mut pace, 4, NOW + 5_100);
    go(&mut pace, NOW + 5_100);
}

#[test]
fn a_failed_trial_opens_it_again_and_a_lost_one_is_replaced() {
    let mut pace = Pace::new(100, NOW);
    fail(&mut pace, 5, NOW);
    go(&mut pace, NOW + 5_000);
    pace.failed(None, NOW + 7_000);
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW + 7_000), Admission::Held { ms: 5_000 });
    go(&mut pace, NOW + 12_000);
    assert_eq!(pace.admit(LookupPurpose::Backfill, NOW + 21_999), Admission::Held { ms: 1 });
    go(&mut pace, NOW + 22_000);
    assert!(matches!(pace.admit(LookupPurpose::OnDemand, NOW + 22_000), Admission::Held { .. }));
}

#[test]
fn a_trial_waits_for_the_budget() {
    let mut pace = Pace::new(1, NOW);
    go(&mut pace, NOW);
    fail(&mut pace, 5, NOW - 4_500);
    // The bucket is still empty when the breaker lets one through.
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW + 500), Admission::Spent { ms: 500 });
    assert_eq!(pace.breaker(NOW + 500), Breaker::HalfOpen);
    go(&mut pace, NOW + 1_000);
}

#[test]
fn a_pause_that_the_upstream_asks_for_counts_for_all() {
    let mut pace = Pace::new(100, NOW);
    pace.failed(Some(30), NOW);
    assert_eq!(pace.breaker(NOW), Breaker::Closed);
    for purpose in [LookupPurpose::OnDemand, LookupPurpose::Backfill] {
        assert_eq!(pace.admit(purpose, NOW + 1_000), Admission::Held { ms: 29_000 });
    }
    // A shorter one does not end it, nor does an answer.
    pace.failed(Some(1), NOW + 1_000);
    pace.succeeded(NOW + 1_000);
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW + 29_999), Admission::Held { ms: 1 });
    go(&mut pace, NOW + 30_000);
    for endless in [3_601, u64::MAX] {
        pace.failed(Some(endless), NOW + 40_000);
        assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW + 40_000), Admission::Held { ms: 3_600_000 });
    }
}

#[test]
fn a_clock_that_goes_back_costs_one_pause() {
    const YEAR: i64 = 365 * 86_400_000;
    let mut pace = Pace::new(2, NOW);
    go(&mut pace, NOW);
    go(&mut pace, NOW);
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW - YEAR), Admission::Spent { ms: 500 });
    go(&mut pace, NOW - YEAR + 500);
    fail(&mut pace, 5, NOW);
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW - YEAR), Admission::Held { ms: 5_000 });
    go(&mut pace, NOW - YEAR + 5_000);
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW - 2 * YEAR), Admission::Held { ms: 10_000 });
    pace.failed(Some(60), NOW);
    assert_eq!(pace.admit(LookupPurpose::OnDemand, NOW - 2 * YEAR), Admission::Held { ms: 3_600_000 });
    for now in [i64::MIN, i64::MAX] {
        let _ = pace.admit(LookupPurpose::OnDemand, now);
        pace.failed(Some(u64::MAX), now);
    }
}
