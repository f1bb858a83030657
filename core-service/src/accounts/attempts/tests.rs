//! Limits of tries: exact on several cores, apart from each other, and all or none.

use std::sync::Arc;

use futures::future::join_all;

use super::*;
use crate::tests::harness::{ManualClock, core, shared_memory};

async fn reserve_of(shared: &Shared, email: &str) -> Result<ReservedAttempt> {
    reserve(shared, &SIGN_IN_FROM_UNKNOWN, &account(shared, email)).await
}

#[tokio::test]
async fn tries_at_once_on_two_cores_are_limited_exactly_and_come_back_with_time() {
    let clock = ManualClock::new();
    let store = shared_memory(&clock);
    let cores = [core(Arc::clone(&store), &clock, 1).await, core(store, &clock, 2).await];
    let all = (0..30).map(|turn| reserve_of(&cores[turn % 2].shared, "Ada@Example.com"));
    let (taken, refused): (Vec<_>, Vec<_>) = join_all(all).await.into_iter().partition(Result::is_ok);
    assert_eq!((taken.len(), refused.len()), (10, 20));
    let error = refused.into_iter().find_map(Result::err).unwrap();
    assert_eq!((error.api.code, error.api.retry_after), (ErrorCode::RateLimited, Some(1)));
    clock.advance(UNDER_WAY_MS);
    let error = reserve_of(&cores[0].shared, "ada@example.com").await.unwrap_err();
    assert_eq!(error.api.retry_after, Some(3_590));

    clock.advance(HOUR_MS - UNDER_WAY_MS - 1);
    let [one, other] = &cores;
    let again = || reserve_of(&other.shared, " ada@example.COM");
    let error = again().await.unwrap_err();
    assert_eq!(error.api.retry_after, Some(1));
    give_back(&one.shared, taken.into_iter().flatten().take(1)).await;
    let last = again().await.unwrap();
    assert!(again().await.is_err());
    give_back(&one.shared, [last]).await;
    clock.advance(1);
    for _ in 0..10 {
        again().await.unwrap();
    }
    assert!(again().await.is_err());
}

#[tokio::test]
async fn limits_count_apart() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    for _ in 0..10 {
        from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, Some("192.0.2.1")).await.unwrap();
    }
    assert!(from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, Some("192.0.2.1")).await.is_err());
    assert!(from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, Some("192.0.2.2")).await.is_ok());
    assert!(from_address(&core.shared, &SIGN_IN_FROM_ADDRESS, Some("192.0.2.1")).await.is_ok());
    assert!(from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, None).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_48_of_ipv6_has_sixteen_times_the_limit_of_a_64() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let sign_up = async |network: usize, host: usize| {
        let address = format!("2001:db8:1:{network:x}::{host:x}");
        from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, Some(&address)).await
    };
    for network in 0..16 {
        for host in 0..10 {
            sign_up(network, host).await.unwrap();
        }
        assert!(sign_up(network, 10).await.is_err(), "{network}");
    }
    // The /64 is fresh, but its /48 is full. Refused tries are not kept, so the limits end together.
    for host in 0..20 {
        assert!(sign_up(16, host).await.is_err(), "{host}");
    }
    let elsewhere = Some("2001:db8:2::1");
    let tries = from_address(&core.shared, &SIGN_UP_FROM_ADDRESS, elsewhere).await.unwrap();
    assert_eq!(tries.len(), 2);
    clock.advance(HOUR_MS);
    for host in 0..10 {
        sign_up(16, host).await.unwrap();
    }
}

#[tokio::test]
async fn a_try_given_back_counts_neither_for_the_64_nor_for_the_48() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    for turn in 0..400 {
        let address = format!("2001:db8:1:{:x}::1", turn % 4);
        let tries = from_address(&core.shared, &SIGN_IN_FROM_ADDRESS, Some(&address)).await.unwrap();
        give_back(&core.shared, tries).await;
    }
}

#[tokio::test]
async fn a_try_counts_under_all_its_limits_or_under_none() {
    let clock = ManualClock::new();
    let core = core(shared_memory(&clock), &clock, 1).await;
    let [wide, narrow] = [("wide", 2), ("narrow", 1)].map(|(name, max)| Limit { name, max, window_ms: HOUR_MS });
    let both = async || reserve_all(&core.shared, vec![(wide, "ada".to_owned()), (narrow, "ada".to_owned())]).await;
    assert_eq!(both().await.unwrap().len(), 2);
    for _ in 0..5 {
        assert!(both().await.is_err());
    }
    reserve(&core.shared, &wide, "ada").await.unwrap();
    assert!(reserve(&core.shared, &wide, "ada").await.is_err());
}
