//! The nodes without the service: the service's kinds of calls, as many as the nodes answer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use core_service::{
    key,
    store::{
        Backend as _, Change, ConditionalWrite, Consistency, Expect, Transaction, schema,
        scylla::{ScyllaOptions, ScyllaStore},
    },
};
use thesis_net::clock::SystemClock;
use tokio::{task::JoinSet, time::Instant};

use crate::harness::{nodes, now_ms};

/// Most calls under way at once.
const AT_ONCE: usize = 16;
/// How long each kind of call is measured, after as long unmeasured: a node that has just started is slow.
const MEASURED: Duration = Duration::from_secs(10);
/// Partitions of the rows of a thesis. One row has its text, the others are small, so one request writes all of them.
const PARTITIONS: i64 = 7;

/// The calls, by what they do.
const KINDS: [&str; 3] = ["reads of a row", "writes of a thesis's rows", "conditional writes"];

async fn call(store: &ScyllaStore, kind: usize, number: i64) {
    let body = Some(vec![b'x'; 600].into());
    match kind {
        0 => drop(store.get(&schema::THESIS, &key!["alone", "0"], Consistency::Quorum).await.unwrap()),
        1 => {
            let change = |partition| {
                let key = key!["alone", format!("{number} {partition}")];
                let body = if partition == 0 { body.clone() } else { Some(vec![b'x'; 30].into()) };
                Change { table: &schema::THESIS, key, version: 1, body, ttl: None }
            };
            store.apply((0..PARTITIONS).map(change).collect()).await.unwrap();
        }
        _ => {
            let write = ConditionalWrite { clustering: Vec::new(), expect: Expect::Absent, version: 1, body };
            let partition = key![format!("alone {number}")];
            let transaction = Transaction { table: &schema::WEBHOOK_STREAK, partition, writes: vec![write], ttl: None };
            assert!(store.transact(transaction).await.unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "run by tests/soak"]
async fn what_nodes_do_by_themselves() {
    let nodes: Vec<String> = nodes().expect("TEST_SCYLLA_NODES").split(',').map(str::to_owned).collect();
    let options = ScyllaOptions {
        replication_factor: u32::try_from(nodes.len()).unwrap().min(3),
        nodes,
        keyspace: format!("alone_{}", now_ms()),
        datacenter: "datacenter1".to_owned(),
        user: None,
        password: None,
        ca_file: None,
    };
    let store = Arc::new(ScyllaStore::connect(options, Arc::new(SystemClock)).await.unwrap());
    let numbers = Arc::new(AtomicI64::new(0));
    for (kind, what) in KINDS.into_iter().enumerate() {
        let began = Instant::now();
        let mut calling = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (store, numbers) = (Arc::clone(&store), Arc::clone(&numbers));
            calling.spawn(async move {
                let mut took = Vec::new();
                while began.elapsed() < 2 * MEASURED {
                    let since = Instant::now();
                    call(&store, kind, numbers.fetch_add(1, Ordering::Relaxed)).await;
                    if began.elapsed() > MEASURED {
                        took.push(since.elapsed());
                    }
                }
                took
            });
        }
        let mut took = calling.join_all().await.concat();
        took.sort_unstable();
        let a_second = took.len() as u64 / MEASURED.as_secs();
        println!(
            "{what}: {a_second} a second, {AT_ONCE} at once, p50 {:?} p99 {:?} max {:?}",
            took[took.len() / 2],
            took[took.len() * 99 / 100],
            took[took.len() - 1]
        );
    }
}
