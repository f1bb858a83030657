//! Tests on a cluster, which run when `TEST_SCYLLA_NODES` names one.

mod expiry;
pub(crate) mod traces;

use std::{
    ops::Bound,
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use thesis_net::clock::{Clock, SystemClock};

use super::*;
use crate::{
    key,
    store::{ConditionalWrite, Expect, SharedBackend},
};

/// The keyspace of this process.
static KEYSPACE: LazyLock<String> = LazyLock::new(|| format!("test_{}_{}", SystemClock.now_ms(), std::process::id()));

/// The options of the cluster that `TEST_SCYLLA_NODES` names, if it names one.
pub(crate) fn options(keyspace: &str) -> Option<ScyllaOptions> {
    let nodes = std::env::var("TEST_SCYLLA_NODES").ok().filter(|nodes| !nodes.is_empty())?;
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    Some(ScyllaOptions {
        replication_factor: u32::try_from(nodes.len()).unwrap().min(3),
        nodes,
        keyspace: keyspace.to_owned(),
        datacenter: "datacenter1".to_owned(),
        user: None,
        password: None,
        ca_file: None,
    })
}

/// A store on that cluster, in the keyspace of this test process.
pub(crate) async fn backend() -> Option<SharedBackend> {
    let options = options(&KEYSPACE)?;
    Some(Arc::new(ScyllaStore::connect(options, Arc::new(SystemClock)).await.unwrap()))
}

crate::tests::conformance::conformance_tests!(conformance, crate::store::scylla::tests::backend().await);

fn write(seq: i64, expect: Expect, version: i64, body: Option<&'static str>) -> ConditionalWrite {
    let body = body.map(|body| Bytes::from_static(body.as_bytes()));
    ConditionalWrite { clustering: key![seq], expect, version, body }
}

#[tokio::test]
async fn an_absent_row_counts_as_null_alone_and_in_batches() {
    let Some(store) = backend().await else { return };
    let transact = async |writes| {
        let partition = key!["nulls", 0];
        store.transact(Transaction { table: &schema::EVENT_LOG, partition, writes, ttl: Some(1000) }).await.unwrap()
    };
    let absent = || write(-1, Expect::Absent, 1, Some("head"));
    assert!(transact(vec![absent(), write(1, Expect::Any, 1, Some("")), write(2, Expect::Absent, 1, Some("b"))]).await);
    assert!(!transact(vec![absent()]).await);
    assert!(!transact(vec![write(-1, Expect::Version(2), 3, None), write(3, Expect::Any, 3, Some("c"))]).await);
    assert!(!transact(vec![write(-1, Expect::Version(1), 2, None), write(2, Expect::Version(9), 3, None)]).await);
    assert!(transact(vec![write(-1, Expect::Version(1), 2, Some("head")), write(2, Expect::Any, 2, None)]).await);
    assert!(!transact(vec![write(2, Expect::Version(1), 3, Some("x"))]).await);
    assert!(transact(vec![write(2, Expect::Absent, 3, Some("d"))]).await);
    assert!(transact(vec![write(-1, Expect::Version(2), 3, None)]).await);
    assert!(transact(vec![absent()]).await);

    let all = Scan { consistency: Consistency::Serial, ..Scan::all(&schema::EVENT_LOG, key!["nulls", 0], 10) };
    let rows = store.scan(&all).await.unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.clustering[0].int(), &row.body[..], row.version)).collect();
    assert_eq!(rows, [(-1, &b"head"[..], 1), (1, b"", 1), (2, b"d", 3)]);
}

#[tokio::test]
async fn bounds_of_different_lengths_batches_and_pages() {
    let Some(store) = backend().await else { return };
    let table = &schema::THESIS_INDEX;
    let change = |created_at: i64, id: String, body: usize| Change {
        table,
        key: key!["bounds", "", 0, created_at, id],
        version: 7,
        body: Some(Bytes::from(vec![b'x'; body])),
        ttl: None,
    };
    let many = (0..6_000).map(|row| change(row / 2, format!("{}", row % 2), 100));
    store.apply(many.chain([change(9_000, "large".to_owned(), 200_000)]).collect()).await.unwrap();
    let deletion = Change { body: None, version: 8, ..change(5, "0".to_owned(), 0) };
    store.apply(vec![deletion, change(5, "0".to_owned(), 0)]).await.unwrap();

    let partition = || key!["bounds", "", 0];
    let rows = store.scan(&Scan::all(table, partition(), 10_000)).await.unwrap();
    assert_eq!(rows.len(), 6_000);
    assert!(rows.is_sorted_by_key(|row| (row.clustering[0].int(), row.clustering[1].text().to_owned())));
    let ids = async |from, to, reverse, limit| {
        let scan = Scan { from, to, reverse, ..Scan::all(table, partition(), limit) };
        let rows = store.scan(&scan).await.unwrap();
        rows.iter().map(|row| format!("{}{}", row.clustering[0].int(), row.clustering[1].text())).collect::<Vec<_>>()
    };
    let (included, excluded) = (Bound::Included, Bound::Excluded);
    assert_eq!(ids(excluded(key![4, "0"]), included(key![6]), false, 9).await, ["41", "51", "60", "61"]);
    assert_eq!(ids(included(key![4]), excluded(key![5, "1"]), true, 9).await, ["41", "40"]);
    assert_eq!(ids(excluded(key![4]), excluded(key![6]), false, 9).await, ["51"]);
    assert_eq!(ids(Bound::Unbounded, excluded(key![1, "0"]), true, 1).await, ["01"]);
    assert_eq!(ids(included(key![2_999, "1"]), Bound::Unbounded, true, 2).await, ["9000large", "29991"]);
    assert!(ids(included(key![6]), excluded(key![5]), false, 2).await.is_empty());
}
