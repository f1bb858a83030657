//! Tests that every backend must pass, each written once.
//!
//! `conformance_tests!(name, expression)` creates the tests of a backend. The expression is an `Option<SharedBackend>`;
//! `None` skips the tests. Every test uses its own partitions, so that all may share one keyspace.

mod conditions;
mod keys;
mod model;
mod reads;
mod requests;
mod versions;

use bytes::Bytes;
use thesis_net::clock::{IdSource, SystemIdSource};

pub(crate) use self::{conditions::*, keys::*, model::*, reads::*, requests::*, versions::*};
use crate::store::{Change, ConditionalWrite, Consistency, Expect, Scan, SharedBackend, Table, Transaction, Value};

/// Creates the conformance tests of a backend.
macro_rules! conformance_tests {
    ($name:ident, $backend:expr) => {
        $crate::tests::conformance::conformance_tests!(@each $name, $backend;
            absent_rows_are_none, get_many_answers_in_order, get_many_compares_whole_keys,
            reads_give_clustering_and_version, large_and_empty_bodies,
            scan_is_one_partition_in_order, scan_stops_at_limit, scan_bounds_are_tuples, scan_of_nothing_is_empty,
            scan_many_answers_in_order, many_partitions, texts_sort_by_bytes, integers_sort_by_value,
            partitions_do_not_mix, odd_texts_come_back,
            lower_version_does_nothing, equal_version_repeats, higher_version_wins, deletion_removes,
            old_deletion_does_nothing, progress_of_a_deleted_alert_is_gone, order_of_arrival_does_not_matter,
            one_apply_many_tables, one_apply_many_versions,
            absent_is_a_condition, version_is_a_condition, any_is_none, all_or_nothing, deletion_by_condition,
            conditions_are_per_partition, one_winner_a_round, serial_read_sees_winner, expiring_rows_are_there,
            requests_are_paged_newest_first, responses_to_failed_attempts_come_back,
            random_operations_match_a_map,
        );
    };
    (@each $name:ident, $backend:expr; $($test:ident),+ $(,)?) => {
        mod $name {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                match $backend {
                    Some(backend) => $crate::tests::conformance::$test(&backend).await,
                    None => eprintln!("left out: no {} backend to test on", stringify!($name)),
                }
            })+
        }
    };
}
pub(crate) use conformance_tests;

/// A text that no other test uses.
fn fresh(label: &str) -> String {
    let mut bytes = [0; 8];
    SystemIdSource.fill(&mut bytes);
    format!("{label}-{}", hex::encode(bytes))
}

fn body(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn put(table: &'static Table, key: Vec<Value>, version: i64, text: &str) -> Change {
    Change { table, key, version, body: Some(body(text)), ttl: None }
}

fn deletion(table: &'static Table, key: Vec<Value>, version: i64) -> Change {
    Change { table, key, version, body: None, ttl: None }
}

fn when(clustering: Vec<Value>, expect: Expect, version: i64, text: &str) -> ConditionalWrite {
    ConditionalWrite { clustering, expect, version, body: Some(body(text)) }
}

async fn transact(
    backend: &SharedBackend,
    table: &'static Table,
    partition: Vec<Value>,
    writes: Vec<ConditionalWrite>,
) -> bool {
    backend.transact(Transaction { table, partition, writes, ttl: None }).await.unwrap()
}

/// Version and body of a row.
async fn stored(backend: &SharedBackend, table: &'static Table, key: impl AsRef<[Value]>) -> Option<(i64, String)> {
    let row = backend.get(table, key.as_ref(), Consistency::Quorum).await.unwrap()?;
    Some((row.version, String::from_utf8(row.body.to_vec()).unwrap()))
}

/// The clustering keys of a slice.
async fn slice(backend: &SharedBackend, scan: &Scan) -> Vec<Vec<Value>> {
    backend.scan(scan).await.unwrap().into_iter().map(|row| row.clustering).collect()
}
