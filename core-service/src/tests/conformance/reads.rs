//! Reading rows and slices.

use std::ops::Bound::{Excluded, Included, Unbounded};

use super::{body, fresh, put, slice, stored};
use crate::{
    key,
    store::{
        Change, Consistency, Row, Scan, SharedBackend, Value,
        schema::{PROFILE, THESIS_INDEX, TICKET_MOVE, TOKEN_SYMBOL, TOKEN_TOTALS},
    },
};

pub(crate) async fn absent_rows_are_none(backend: &SharedBackend) {
    let dataset = fresh("absent");
    assert_eq!(stored(backend, &PROFILE, key![&dataset, "none"]).await, None);
    assert_eq!(backend.get_many(&PROFILE, &[key![&dataset, "none"]]).await.unwrap(), [None]);
    assert_eq!(backend.get_many(&PROFILE, &[]).await.unwrap(), []);
    assert!(slice(backend, &Scan::all(&TOKEN_SYMBOL, key![&dataset, "none"], 10)).await.is_empty());
}

pub(crate) async fn get_many_answers_in_order(backend: &SharedBackend) {
    let dataset = fresh("many");
    let changes = (0..30).map(|n| put(&PROFILE, key![&dataset, format!("{n}")], 1, &n.to_string()));
    backend.apply(changes.collect()).await.unwrap();
    // Rows from 30 on are absent, and some keys come twice.
    let mixed: Vec<i32> = (0..30).map(|n| n * 7 % 36).chain([7, 35, 0, 7]).collect();
    for numbers in [mixed, vec![29], vec![30], vec![30, 31], vec![3, 3]] {
        let keys: Vec<_> = numbers.iter().map(|n| key![&dataset, n.to_string()]).collect();
        let rows = backend.get_many(&PROFILE, &keys).await.unwrap();
        let row = |n: &i32| Row { clustering: Vec::new(), body: body(&n.to_string()), version: 1 };
        let expected: Vec<_> = numbers.iter().map(|n| (*n < 30).then(|| row(n))).collect();
        assert_eq!(rows, expected, "{numbers:?}");
    }
}

pub(crate) async fn get_many_compares_whole_keys(backend: &SharedBackend) {
    let datasets = [fresh("whole"), fresh("whole")];
    let key = |n: i64| key![&datasets[usize::from(n % 2 == 1)], format!("tk_{}", n / 2 % 3), format!("fp_{}", n / 6)];
    // One row in five is absent. Keys differ in any column: dataset and token are the partition, the author is not.
    let written = (0..60).filter(|n| n % 5 > 0);
    backend.apply(written.map(|n| put(&TOKEN_TOTALS, key(n), n, &n.to_string())).collect()).await.unwrap();
    let read = async |numbers: Vec<i64>| {
        let keys: Vec<_> = numbers.iter().map(|n| key(*n)).collect();
        let rows = backend.get_many(&TOKEN_TOTALS, &keys).await.unwrap();
        let row = |n: i64| Row { clustering: key(n)[2..].to_vec(), body: body(&n.to_string()), version: n };
        let expected: Vec<_> = numbers.iter().map(|n| (n % 5 > 0).then(|| row(*n))).collect();
        assert_eq!(rows, expected, "{numbers:?}");
    };
    // All; those of one partition; those of one dataset and author.
    read((0..60).rev().collect()).await;
    read((0..10).map(|n| 58 - 6 * n).collect()).await;
    read(vec![4, 0, 2, 4]).await;
}

pub(crate) async fn reads_give_clustering_and_version(backend: &SharedBackend) {
    let dataset = fresh("row");
    let key = key![&dataset, "SYM", "base", "0x1"];
    backend.apply(vec![put(&TOKEN_SYMBOL, key.clone(), 42, "token")]).await.unwrap();
    let row = Row { clustering: key!["base", "0x1"], body: body("token"), version: 42 };
    assert_eq!(backend.get(&TOKEN_SYMBOL, &key, Consistency::Quorum).await.unwrap(), Some(row.clone()));
    assert_eq!(backend.get_many(&TOKEN_SYMBOL, &[key]).await.unwrap(), [Some(row.clone())]);
    let scan = Scan::all(&TOKEN_SYMBOL, key![&dataset, "SYM"], 10);
    assert_eq!(backend.scan(&scan).await.unwrap(), [row]);
}

pub(crate) async fn large_and_empty_bodies(backend: &SharedBackend) {
    let dataset = fresh("bodies");
    for (id, length) in [("empty", 0), ("large", 60 << 10)] {
        let body: bytes::Bytes = (0..length).map(|n| u8::try_from(n % 251).unwrap()).collect();
        let key = key![&dataset, id];
        let change = Change { table: &PROFILE, key: key.clone(), version: 1, body: Some(body.clone()), ttl: None };
        backend.apply(vec![change]).await.unwrap();
        let row = backend.get(&PROFILE, &key, Consistency::Quorum).await.unwrap().unwrap();
        assert_eq!(row.body, body, "{id}");
    }
}

/// Rows (time, id) of a partition, written out of order.
async fn timeline(backend: &SharedBackend, rows: &[(i64, &str)]) -> Vec<Value> {
    let partition = key![fresh("timeline"), "all", 1];
    let changes =
        rows.iter().rev().map(|(time, id)| put(&THESIS_INDEX, [partition.clone(), key![*time, *id]].concat(), 1, id));
    backend.apply(changes.collect()).await.unwrap();
    partition
}

fn keys(rows: &[(i64, &str)]) -> Vec<Vec<Value>> {
    rows.iter().map(|(time, id)| key![*time, *id]).collect()
}

pub(crate) async fn scan_is_one_partition_in_order(backend: &SharedBackend) {
    let rows = [(1, "b"), (2, "a"), (2, "b"), (3, "a")];
    let partition = timeline(backend, &rows).await;
    let up = Scan::all(&THESIS_INDEX, partition, 100);
    assert_eq!(slice(backend, &up).await, keys(&rows));
    let down = Scan { reverse: true, ..up };
    let reversed: Vec<_> = rows.into_iter().rev().collect();
    assert_eq!(slice(backend, &down).await, keys(&reversed));
}

pub(crate) async fn scan_stops_at_limit(backend: &SharedBackend) {
    let rows = [(1, "a"), (2, "a"), (3, "a"), (4, "a")];
    let partition = timeline(backend, &rows).await;
    for limit in 0..6 {
        let up = Scan::all(&THESIS_INDEX, partition.clone(), limit);
        assert_eq!(slice(backend, &up).await, keys(&rows[..limit.min(4)]));
        let down = Scan { reverse: true, ..up };
        let newest: Vec<_> = rows.into_iter().rev().take(limit).collect();
        assert_eq!(slice(backend, &down).await, keys(&newest));
    }
}

pub(crate) async fn scan_bounds_are_tuples(backend: &SharedBackend) {
    let rows = [(1, "a"), (2, ""), (2, "a"), (2, "b"), (3, "a"), (5, "a")];
    let partition = timeline(backend, &rows).await;
    let (one, two, five) = (|id: &str| key![2, id], key![2], key![5]);
    for (from, to, expected) in [
        (Included(two.clone()), Unbounded, &rows[1..]),
        (Excluded(two.clone()), Unbounded, &rows[4..]),
        (Unbounded, Included(two.clone()), &rows[..4]),
        (Unbounded, Excluded(two.clone()), &rows[..1]),
        (Included(two.clone()), Included(two.clone()), &rows[1..4]),
        (Included(two.clone()), Excluded(five.clone()), &rows[1..5]),
        (Excluded(two.clone()), Included(five.clone()), &rows[4..]),
        (Included(one("a")), Included(one("b")), &rows[2..4]),
        (Excluded(one("a")), Excluded(key![3, "a"]), &rows[3..4]),
        (Excluded(one("")), Unbounded, &rows[2..]),
        (Unbounded, Excluded(one("a")), &rows[..2]),
        (Excluded(five), Unbounded, &[]),
    ] {
        let up = Scan { from, to, ..Scan::all(&THESIS_INDEX, partition.clone(), 100) };
        assert_eq!(slice(backend, &up).await, keys(expected), "{up:?}");
        let down = Scan { reverse: true, limit: 2, ..up };
        let newest: Vec<_> = expected.iter().rev().take(2).copied().collect();
        assert_eq!(slice(backend, &down).await, keys(&newest), "{down:?}");
    }
}

pub(crate) async fn scan_of_nothing_is_empty(backend: &SharedBackend) {
    let partition = timeline(backend, &[(1, "a"), (3, "a")]).await;
    for (from, to) in [(Included(key![2]), Excluded(key![3])), (Excluded(key![3]), Unbounded)] {
        let scan = Scan { from, to, ..Scan::all(&THESIS_INDEX, partition.clone(), 10) };
        assert!(slice(backend, &scan).await.is_empty(), "{scan:?}");
    }
}

pub(crate) async fn scan_many_answers_in_order(backend: &SharedBackend) {
    assert!(backend.scan_many(&[]).await.unwrap().is_empty());
    let partition = timeline(backend, &[(1, "a"), (2, "a"), (3, "a")]).await;
    // The dataset has rows, but a new store has none in this table.
    let none = Scan::all(&TOKEN_SYMBOL, key![partition[0].clone(), "none"], 10);
    let up = Scan::all(&THESIS_INDEX, partition, 10);
    let down = Scan { reverse: true, limit: 2, ..up.clone() };
    let scans = [down, none, up];
    let read = backend.scan_many(&scans).await.unwrap();
    assert_eq!(read.iter().map(Vec::len).collect::<Vec<_>>(), [2, 0, 3]);
    for (scan, rows) in scans.iter().zip(read) {
        assert_eq!(rows, backend.scan(scan).await.unwrap(), "{scan:?}");
    }
}

pub(crate) async fn many_partitions(backend: &SharedBackend) {
    // Negative seconds that no clock gives, far apart from other runs.
    let first = -i64::from_str_radix(&fresh("")[1..13], 16).unwrap() * 1_000;
    let changes = (0..200).map(|n| put(&TICKET_MOVE, key![first + n, "topic"], n + 1, &n.to_string()));
    backend.apply(changes.collect()).await.unwrap();
    for n in (0..200).step_by(7) {
        let rows = backend.scan(&Scan::all(&TICKET_MOVE, key![first + n], 10)).await.unwrap();
        assert_eq!(rows, [Row { clustering: key!["topic"], body: body(&n.to_string()), version: n + 1 }]);
    }
}
