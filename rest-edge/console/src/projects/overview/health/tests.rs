use thesis_proto::time::from_millis;

use super::*;
use crate::{projects::usage::count_usage, view::MAX_BAR};

const NOW: i64 = 20_000 * DAY_MS;

fn counted(requests: u64, errors: u64) -> UsageCounts {
    let hour = Some(from_millis(NOW));
    count_usage(&[v1::KeyUsage { hour, requests, errors, ..v1::KeyUsage::default() }], NOW, 1)
}

fn deliveries(attempts: i64, successes: i64, awaits_verification: bool) -> Deliveries {
    let last_day = Some(v1::WebhookAttempts { attempts, successes, ..v1::WebhookAttempts::default() });
    let insight = v1::WebhookInsight { last_day, awaits_verification, ..v1::WebhookInsight::default() };
    Deliveries { insights: Some(vec![insight]), has_more: false }
}

fn key(name: &str, days: i64) -> v1::ApiKey {
    let expires_at = Some(from_millis(NOW + days * DAY_MS));
    v1::ApiKey { name: name.to_owned(), expires_at, ..v1::ApiKey::default() }
}

#[test]
fn errors_are_a_concern_from_one_in_twenty() {
    let class = |requests, errors| self::requests(counted(requests, errors), String::new()).badge.class;
    assert_eq!([class(0, 0), class(100, 4), class(100, 5)], ["", "good", "warn"]);
}

#[test]
fn deliveries_that_fail_or_wait_are_a_concern() {
    let tile = |deliveries: &Deliveries| deliveries_tile(deliveries, String::new());
    let class = |attempts, successes, waits| tile(&deliveries(attempts, successes, waits)).badge.class;
    assert_eq!([class(0, 0, false), class(100, 95, false), class(100, 94, false)], ["", "good", "warn"]);
    assert_eq!(class(100, 100, true), "bad");
    assert_eq!(tile(&deliveries(4, 1, false)).share, Some(MAX_BAR / 4));
    // Data that could not be read is not reported as healthy.
    let unknown = tile(&Deliveries::default());
    assert!(unknown.badge.class.is_empty() && unknown.text.contains("could not be read"));
    assert!(!Deliveries::default().has_success() && deliveries(1, 1, false).has_success());
}

#[test]
fn limits_are_a_concern_before_they_are_reached() {
    let month = v1::MonthUsage { end: Some(from_millis(NOW)), ..v1::MonthUsage::default() };
    let until = super::quota(Some(&month), String::new()).until.unwrap();
    assert_eq!((until.0, until.1.0.as_str()), ("The month ends on", moment(month.end.as_ref()).0.as_str()));
    let quota = |used| {
        let month = v1::MonthUsage { used, limit: 10, ..v1::MonthUsage::default() };
        super::quota(Some(&month), String::new()).badge.class
    };
    assert_eq!([quota(0), quota(7), quota(8), quota(10)], ["good", "good", "warn", "bad"]);
    let streams = |open| super::streams(v1::StreamUsage { open, limit: 2 }, String::new()).badge.class;
    assert_eq!([streams(0), streams(1), streams(2)], ["", "good", "warn"]);
}

#[test]
fn keys_that_expire_soon_are_named() {
    let text = |keys: &[v1::ApiKey]| expiring_keys(keys, NOW, String::new()).text;
    assert_eq!(text(&[]), "There are no keys.");
    assert_eq!(text(&[key("old", 0), key("late", 15)]), "No key expires in the next 14 days.");
    assert_eq!(text(&[key("soon", 14)]), "A key expires in the next 14 days: soon.");
    let many: Vec<_> = ["a", "b", "c", "d", "e"].map(|name| key(name, 1)).into();
    assert_eq!(text(&many), "5 keys expire in the next 14 days: a, b, c, 2 more.");
}

#[test]
fn a_key_counts_in_its_environment() {
    let of = |id: &str, environment: v1::Environment| v1::ApiKey {
        id: id.to_owned(),
        environment: environment.into(),
        ..v1::ApiKey::default()
    };
    let (keys, revoked) = ([of("key_1", v1::Environment::Test)], [of("key_2", v1::Environment::Live)]);
    let found = |id: &str, live| is_of(&keys, &revoked, id, live);
    assert!(found("key_1", false) && !found("key_1", true) && found("key_2", true) && !found("console/prj_1", false));
}
