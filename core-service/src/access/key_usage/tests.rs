use std::sync::Arc;

use thesis_net::services::Trusted;
use thesis_proto::v1::{self, meta_service_server::MetaService as _, thesis_service_server::ThesisService as _};
use tonic::Request;

use super::*;
use crate::{
    domain::{
        account::{Actor, KeyUsageRow},
        id,
        window::{DAY_MS, MINUTE_MS},
    },
    grpc::Api,
    operations::admin::revoke_key::revoke_key,
    service::Core,
    tables::key_usage::{RETENTION_MS, last_uses, list},
    tests::harness::{ManualClock, NOON, SharedMemory, TEST_KEY, core, memory},
};

fn key(id: &str) -> ApiKey {
    ApiKey { id: id.to_owned(), project_id: "prj_1".to_owned(), ..ApiKey::default() }
}

fn row(hour: i64, key: &str, class: RateClass, requests: u64, errors: u64) -> KeyUsageRow {
    KeyUsageRow { hour, key: key.to_owned(), class: class.as_str().to_owned(), requests, errors }
}

async fn all(backend: &SharedBackend, now_ms: i64) -> Vec<KeyUsageRow> {
    list(backend, "prj_1", 0, now_ms).await.unwrap()
}

#[tokio::test]
async fn replicas_are_added_up_by_hour_key_and_class() {
    let clock = ManualClock::new();
    let backend: SharedBackend = SharedMemory::new(&clock);
    let [one, other] = ["rep_a", "rep_b"].map(|name| KeyUsage::new(Arc::clone(&backend), name.to_owned()));
    let (first, second, next) = (key("key_1"), key("key_2"), NOON + HOUR_MS);
    for usage in [&one, &other] {
        usage.count(&first, RateClass::Standard, NOON + 1);
        usage.count(&first, RateClass::Standard, NOON + 2);
        usage.count_error(&first, RateClass::Standard, NOON + 2);
        usage.count(&second, RateClass::Heavy, NOON + 3);
        usage.flush(NOON + MINUTE_MS).await;
    }
    one.count(&first, RateClass::Verify, NOON + 4);
    one.count(&first, RateClass::Standard, next + 5);
    assert_eq!(all(&backend, next).await.len(), 2, "stored once a minute");
    one.flush(next + MINUTE_MS).await;
    // Nothing is counted twice.
    one.flush(next + 2 * MINUTE_MS).await;
    let expected = [
        row(NOON, "key_1", RateClass::Standard, 4, 2),
        row(NOON, "key_1", RateClass::Verify, 1, 0),
        row(NOON, "key_2", RateClass::Heavy, 2, 0),
        row(next, "key_1", RateClass::Standard, 1, 0),
    ];
    assert_eq!(all(&backend, next).await, expected);
    assert_eq!(list(&backend, "prj_1", NOON, next - 1).await.unwrap(), expected[..3]);
    assert_eq!(list(&backend, "prj_1", next + 7, next + 8).await.unwrap(), expected[3..]);
    assert!(list(&backend, "prj_2", 0, next).await.unwrap().is_empty());
    // An earlier time that is stored later changes nothing.
    other.count(&first, RateClass::Standard, NOON + 9);
    other.flush(next + 3 * MINUTE_MS).await;
    let uses = last_uses(&backend, "prj_1").await.unwrap();
    assert_eq!(uses, HashMap::from([("key_1".to_owned(), next + 5), ("key_2".to_owned(), NOON + 3)]));
}

#[tokio::test]
async fn a_process_goes_on_with_the_counts_of_the_one_before_it() {
    let clock = ManualClock::new();
    let backend = memory(&clock);
    let key = key("key_1");
    for _ in 0..3 {
        let usage = KeyUsage::new(Arc::clone(&backend), "embedded".to_owned());
        usage.count(&key, RateClass::Standard, NOON);
        usage.flush(NOON).await;
        usage.count(&key, RateClass::Standard, NOON);
        usage.count_error(&key, RateClass::Standard, NOON);
        usage.flush(NOON).await;
    }
    assert_eq!(all(&backend, NOON).await, [row(NOON, "key_1", RateClass::Standard, 6, 3)]);
}

#[tokio::test]
async fn counts_wait_for_a_store_that_is_away_and_are_forgotten_once_they_are_stored() {
    let clock = ManualClock::new();
    let store = SharedMemory::new(&clock);
    let backend: SharedBackend = store.clone();
    let usage = KeyUsage::new(Arc::clone(&backend), "rep_a".to_owned());
    let (key, later) = (key("key_1"), NOON + 3 * HOUR_MS);
    usage.count(&key, RateClass::Standard, NOON);
    store.set_away(true);
    usage.flush(NOON + MINUTE_MS).await;
    usage.flush(later).await;
    usage.count(&key, RateClass::Standard, NOON);
    store.set_away(false);
    usage.flush(later).await;
    assert_eq!(all(&backend, later).await, [row(NOON, "key_1", RateClass::Standard, 2, 0)]);
    assert!(usage.used.lock().is_empty());
    // An answer that comes very late is added nevertheless.
    usage.count_error(&key, RateClass::Standard, NOON);
    usage.flush(later).await;
    assert_eq!(all(&backend, later).await, [row(NOON, "key_1", RateClass::Standard, 2, 1)]);
}

#[tokio::test]
async fn counts_are_kept_for_ninety_days() {
    let clock = ManualClock::new();
    let backend = memory(&clock);
    let usage = KeyUsage::new(Arc::clone(&backend), "embedded".to_owned());
    let key = key("key_1");
    usage.count(&key, RateClass::Standard, NOON);
    usage.flush(NOON).await;
    for (age, is_kept) in [(RETENTION_MS - DAY_MS, true), (RETENTION_MS + HOUR_MS, false)] {
        assert_eq!(all(&backend, NOON + age).await.len(), usize::from(is_kept), "{age}");
    }
    clock.advance(RETENTION_MS + DAY_MS);
    backend.sweep(clock.now_ms()).await.unwrap();
    assert!(all(&backend, NOON).await.is_empty());
    assert_eq!(last_uses(&backend, "prj_1").await.unwrap().len(), 1);
}

fn with_key<T>(message: T, key: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request.extensions_mut().insert(Trusted::default());
    request
}

/// The counts of the bootstrap project: requests and errors.
async fn counted(core: &Core, clock: &ManualClock) -> Vec<(u64, u64)> {
    core.key_usage.flush(clock.now_ms()).await;
    let project = id::derive("prj_", &["default"]);
    let rows = list(&core.shared.backend, &project, 0, clock.now_ms()).await.unwrap();
    rows.iter().map(|row| (row.requests, row.errors)).collect()
}

#[tokio::test]
async fn answers_and_refusals_of_known_keys_are_counted() {
    let clock = ManualClock::new();
    let core = core(memory(&clock), &clock, 0).await;
    let api = Api::new(&core);
    api.get_me(with_key(v1::GetMeRequest {}, TEST_KEY)).await.unwrap();
    let missing = v1::GetThesisRequest { id: "th_none".to_owned() };
    api.get_thesis(with_key(missing, TEST_KEY)).await.unwrap_err();
    let unknown = TEST_KEY.replace('0', "1");
    api.get_me(with_key(v1::GetMeRequest {}, &unknown)).await.unwrap_err();
    api.get_me(Request::new(v1::GetMeRequest {})).await.unwrap_err();
    assert_eq!(counted(&core, &clock).await, [(2, 1)]);
    // Requests with a revoked key are reported too.
    let id = core.shared.control.state().keys().find(|key| !key.live).map(|key| key.id.clone()).unwrap();
    revoke_key(&core, &Actor::operator(None), &v1::RevokeKeyRequest { id }).await.unwrap();
    api.get_me(with_key(v1::GetMeRequest {}, TEST_KEY)).await.unwrap_err();
    assert_eq!(counted(&core, &clock).await, [(3, 2)]);
}
