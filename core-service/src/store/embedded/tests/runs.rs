//! Writes of many rows at once, between stored ones and over them, against a map.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use proptest::prelude::*;

use super::{super::*, Fixed};
use crate::{
    key,
    store::{
        ConditionalWrite, Expect,
        schema::{EVENT_LOG, PROFILE, TOKEN_TOTALS},
    },
};

/// A change of the row with this number, to this version: a put or a deletion.
type RandomChange = (u8, i64, bool);
type Model = BTreeMap<u8, i64>;

fn body(version: i64) -> Bytes {
    // Few of them fit into a page.
    vec![version.to_le_bytes()[0]; 300].into()
}

/// The key of a row. A table with a clustering column has one partition for all rows, any other table one for each row.
fn row_key(table: &Table, number: u8) -> Vec<Value> {
    let number = format!("{number:03}");
    if table.clustering.is_empty() { key!["d", number] } else { key!["d", "t", number] }
}

/// Applies changes. The last one with the highest version counts.
async fn apply(store: &EmbeddedStore, table: &'static Table, model: &mut Model, changes: &[RandomChange]) {
    let mut last: BTreeMap<u8, (i64, bool)> = BTreeMap::new();
    for (number, version, puts) in changes {
        let kept = last.entry(*number).or_insert((*version, *puts));
        if kept.0 <= *version {
            *kept = (*version, *puts);
        }
    }
    for (number, (version, puts)) in last {
        if model.get(&number).is_some_and(|stored| *stored > version) {
            continue;
        }
        if puts {
            model.insert(number, version);
        } else {
            model.remove(&number);
        }
    }
    let changes = changes.iter().map(|(number, version, puts)| Change {
        table,
        key: row_key(table, *number),
        version: *version,
        body: puts.then(|| body(*version)),
        ttl: None,
    });
    store.apply(changes.collect()).await.unwrap();
}

/// Puts rows of a log beside its head, whatever their versions are.
async fn append(store: &EmbeddedStore, model: &mut Model, head: i64, changes: &[RandomChange]) {
    let rows: BTreeMap<u8, i64> = changes.iter().map(|(number, version, _)| (*number, *version)).collect();
    let write = |seq: i64, expect, version| ConditionalWrite {
        clustering: key![seq],
        expect,
        version,
        body: Some(body(version)),
    };
    let expect = if head == 0 { Expect::Absent } else { Expect::Version(head) };
    let entries = rows.iter().map(|(number, version)| write(i64::from(*number), Expect::Any, *version));
    let writes = std::iter::once(write(-1, expect, head + 1)).chain(entries).collect();
    let transaction = Transaction { table: &EVENT_LOG, partition: key!["d", 0], writes, ttl: None };
    assert!(store.transact(transaction).await.unwrap());
    model.extend(rows);
}

async fn run(writes: Vec<Vec<RandomChange>>) {
    let store = EmbeddedStore::in_memory(Arc::new(Fixed::default()));
    let tables: [&'static Table; 2] = [&PROFILE, &TOKEN_TOTALS];
    let (mut models, mut log) = ([Model::new(), Model::new()], Model::new());
    for (head, changes) in (0..).zip(&writes) {
        for (table, model) in tables.into_iter().zip(&mut models) {
            apply(&store, table, model, changes).await;
        }
        append(&store, &mut log, head, changes).await;
    }
    let row = |clustering, version| Row { clustering, version, body: body(version) };
    for (table, model) in tables.into_iter().zip(&models) {
        let expected = model.iter().map(|(number, version)| {
            let key = row_key(table, *number);
            let clustering = key[table.partition.len()..].to_vec();
            (key, row(clustering, *version))
        });
        assert_eq!(store.all(table).await.unwrap(), expected.collect::<Vec<_>>());
    }
    let mut scan = Scan::all(&EVENT_LOG, key!["d", 0], usize::MAX);
    scan.from = std::ops::Bound::Included(key![0]);
    let expected = log.iter().map(|(number, version)| row(key![i64::from(*number)], *version));
    assert_eq!(store.scan(&scan).await.unwrap(), expected.collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn rows_written_together_are_those_of_a_map(
        writes in prop::collection::vec(
            prop::collection::vec((0..120_u8, 0..9_i64, prop::bool::weighted(0.8)), 0..60),
            1..6,
        ),
    ) {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(run(writes));
    }
}
