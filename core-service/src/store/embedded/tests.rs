mod damage;
pub(crate) mod disk;
mod faults;
mod files;
mod runs;

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use bytes::Bytes;
use thesis_net::clock::Clock;

use super::EmbeddedStore;
use crate::{
    key,
    store::{
        Backend, Change, ConditionalWrite, Consistency, Expect, SharedBackend, Transaction,
        schema::{IDEMPOTENCY, PROFILE},
    },
    tests::conformance::conformance_tests,
};

conformance_tests!(conformance, Some(super::memory()));

fn memory() -> SharedBackend {
    Arc::new(EmbeddedStore::in_memory(Arc::new(Fixed::default())))
}

/// A clock that tests set.
#[derive(Default)]
pub(super) struct Fixed(pub(super) AtomicI64);

impl Clock for Fixed {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) async fn apply(store: &EmbeddedStore, id: &str, version: i64) -> crate::store::StoreResult<()> {
    let body = Some(Bytes::from_static(b"body"));
    store.apply(vec![Change { table: &PROFILE, key: key!["d", id], version, body, ttl: None }]).await
}

pub(super) async fn applied(store: &EmbeddedStore, id: &str) -> Option<i64> {
    let key = key!["d", id];
    let row = store.get(&PROFILE, &key, Consistency::Quorum).await.unwrap();
    row.map(|row| row.version)
}

pub(super) async fn insert(store: &EmbeddedStore, id: &str) -> crate::store::StoreResult<bool> {
    let body = Some(Bytes::from(vec![7; 5_000]));
    let write = ConditionalWrite { clustering: vec![], expect: Expect::Absent, version: 1, body };
    let partition = key!["d", id];
    store.transact(Transaction { table: &IDEMPOTENCY, partition, writes: vec![write], ttl: None }).await
}

pub(super) async fn inserted(store: &EmbeddedStore, id: &str) -> bool {
    let key = key!["d", id];
    store.get(&IDEMPOTENCY, &key, Consistency::Quorum).await.unwrap().is_some()
}
