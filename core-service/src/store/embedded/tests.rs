mod appends;
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
        Backend, Change, ConditionalWrite, Consistency, Expect, Scan, SharedBackend, Transaction,
        schema::{EVENT_LOG, IDEMPOTENCY, PROFILE},
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

/// Appends an entry after `head` to a log.
pub(super) async fn append_entry(store: &EmbeddedStore, head: i64) -> crate::store::StoreResult<bool> {
    let write = |seq: i64, expect, body| ConditionalWrite {
        clustering: key![seq],
        expect,
        version: head + 1,
        body: Some(body),
    };
    let expect = if head == 0 { Expect::Absent } else { Expect::Version(head) };
    let entry = Bytes::from(vec![9; 5_000]);
    let writes = vec![write(-1, expect, Bytes::new()), write(head + 1, Expect::Any, entry)];
    store.transact(Transaction { table: &EVENT_LOG, partition: key!["d", 0], writes, ttl: None }).await
}

/// Writes the row of an entry, a profile of the entry's number.
pub(super) async fn write_row(store: &EmbeddedStore, seq: i64) -> crate::store::StoreResult<()> {
    apply(store, &seq.to_string(), seq).await
}

/// Appends an entry after `head` to a log and then, as a writer does, writes its row.
pub(super) async fn append(store: &EmbeddedStore, head: i64) -> crate::store::StoreResult<bool> {
    let is_appended = append_entry(store, head).await?;
    if is_appended {
        write_row(store, head + 1).await?;
    }
    Ok(is_appended)
}

/// The head of that log, whose entries are all there; 0 when it is empty.
pub(super) async fn head(store: &EmbeddedStore) -> i64 {
    let rows = store.scan(&Scan::all(&EVENT_LOG, key!["d", 0], usize::MAX)).await.unwrap();
    let head = rows.first().map_or(0, |head| head.version);
    assert!(rows.iter().skip(1).map(|row| row.version).eq(1..=head), "the log has a gap");
    head
}

/// Checks that a store has the profile of each entry up to one, and none of an entry that its log lacks. Returns the
/// head of the log.
pub(super) async fn rows_follow(store: &EmbeddedStore, upto: i64) -> i64 {
    let head = head(store).await;
    for seq in 1..=head + 2 {
        let row = applied(store, &seq.to_string()).await;
        assert!(row.is_some() || seq > upto, "the row of entry {seq} is lost");
        assert!(row.is_none() || seq <= head, "entry {seq} has a row and is not in the log");
    }
    head
}
