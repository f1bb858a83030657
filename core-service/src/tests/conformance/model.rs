//! Random operations against an ordered map.

use std::{collections::BTreeMap, ops::Bound};

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::{deletion, fresh, put, when};
use crate::{
    key,
    store::{
        ConditionalWrite, Expect, Scan, SharedBackend, Value,
        schema::{EVENT_LOG, THESIS_INDEX},
    },
};

type Key = (i64, &'static str);

#[derive(Clone, Debug)]
enum Operation {
    /// A put or a deletion, newer than all before.
    Change(Key, bool),
    /// A put with a version below the row's.
    Stale(Key),
    /// A conditional write of one row beside an unconditional one.
    Transact {
        seq: i64,
        expect: Guess,
        beside: i64,
        delete: bool,
    },
    Scan {
        from: Bound<Prefix>,
        to: Bound<Prefix>,
        reverse: bool,
        limit: usize,
    },
}

/// The condition on a row, drawn before its version is known.
#[derive(Clone, Copy, Debug)]
enum Guess {
    Absent,
    Right,
    Wrong,
}

type Prefix = (i64, Option<&'static str>);

fn text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["", "\0", "a", "a\0", "ab", "é"])
}

fn bound() -> impl Strategy<Value = Bound<Prefix>> {
    let prefix = || (-2..3i64, prop::option::of(text()));
    prop_oneof![Just(Bound::Unbounded), prefix().prop_map(Bound::Included), prefix().prop_map(Bound::Excluded)]
}

fn operation() -> impl Strategy<Value = Operation> {
    let key = || (-2..3i64, text());
    let guess = prop::sample::select(vec![Guess::Absent, Guess::Right, Guess::Right, Guess::Wrong]);
    prop_oneof![
        4 => (key(), prop::bool::weighted(0.25)).prop_map(|(key, delete)| Operation::Change(key, delete)),
        1 => key().prop_map(Operation::Stale),
        3 => (0..3i64, guess, 3..6i64, prop::bool::weighted(0.3))
            .prop_map(|(seq, expect, beside, delete)| Operation::Transact { seq, expect, beside, delete }),
        3 => (bound(), bound(), any::<bool>(), 0..12usize)
            .prop_map(|(from, to, reverse, limit)| Operation::Scan { from, to, reverse, limit }),
    ]
}

#[derive(Default)]
struct Model {
    index: BTreeMap<Key, i64>,
    log: BTreeMap<i64, i64>,
}

impl Model {
    fn slice(&self, from: &Bound<Prefix>, to: &Bound<Prefix>, reverse: bool, limit: usize) -> Vec<(Vec<Value>, i64)> {
        // A key is compared by the bound's columns only.
        let cut = |key: &Key, prefix: &Prefix| (key.0, prefix.1.map(|_| key.1));
        let inside = |key: &Key| {
            (match from {
                Bound::Unbounded => true,
                Bound::Included(prefix) => cut(key, prefix) >= *prefix,
                Bound::Excluded(prefix) => cut(key, prefix) > *prefix,
            }) && match to {
                Bound::Unbounded => true,
                Bound::Included(prefix) => cut(key, prefix) <= *prefix,
                Bound::Excluded(prefix) => cut(key, prefix) < *prefix,
            }
        };
        let mut rows: Vec<_> = self
            .index
            .iter()
            .filter(|(key, _)| inside(key))
            .map(|(key, version)| (key![key.0, key.1], *version))
            .collect();
        if reverse {
            rows.reverse();
        }
        rows.truncate(limit);
        rows
    }
}

fn columns(bound: Bound<Prefix>) -> Bound<Vec<Value>> {
    bound.map(|(int, text)| std::iter::once(Value::Int(int)).chain(text.map(Value::from)).collect())
}

async fn run(backend: &SharedBackend, operations: Vec<Operation>) {
    let (dataset, mut model) = (fresh("model"), Model::default());
    let (index, log) = (key![&dataset, "all", -7], key![&dataset, 0]);
    for (step, operation) in (1i64..).zip(operations) {
        let version = step * 10;
        let text = version.to_string();
        match operation {
            Operation::Change(key, delete) => {
                let row = [index.clone(), key![key.0, key.1]].concat();
                backend
                    .apply(vec![if delete {
                        model.index.remove(&key);
                        deletion(&THESIS_INDEX, row, version)
                    } else {
                        model.index.insert(key, version);
                        put(&THESIS_INDEX, row, version, &text)
                    }])
                    .await
                    .unwrap();
            }
            Operation::Stale(key) => {
                if let Some(version) = model.index.get(&key) {
                    let row = [index.clone(), key![key.0, key.1]].concat();
                    backend.apply(vec![put(&THESIS_INDEX, row, version - 1, "stale")]).await.unwrap();
                }
            }
            Operation::Transact { seq, expect, beside, delete } => {
                let stored = model.log.get(&seq).copied();
                let expect = match (expect, stored) {
                    (Guess::Absent, _) | (Guess::Right, None) => Expect::Absent,
                    (Guess::Right, Some(version)) => Expect::Version(version),
                    (Guess::Wrong, _) => Expect::Version(stored.unwrap_or(0) + 1),
                };
                // CQL cannot delete a row that must be absent.
                let delete = delete && expect != Expect::Absent;
                let holds = stored.map_or(Expect::Absent, Expect::Version) == expect;
                let body = (!delete).then(|| super::body(&text));
                let writes = vec![
                    ConditionalWrite { clustering: key![seq], expect, version, body },
                    when(key![beside], Expect::Any, version, &text),
                ];
                assert_eq!(super::transact(backend, &EVENT_LOG, log.clone(), writes).await, holds);
                if holds {
                    model.log.insert(beside, version);
                    if delete {
                        model.log.remove(&seq);
                    } else {
                        model.log.insert(seq, version);
                    }
                }
            }
            Operation::Scan { from, to, reverse, limit } => {
                // CQL refuses a slice that ends before it begins.
                let slice = model.slice(&from, &to, reverse, limit);
                let crossed = crossed(&from, &to);
                let all = Scan::all(&THESIS_INDEX, index.clone(), limit);
                let scan = Scan { from: columns(from), to: columns(to), reverse, ..all };
                if !crossed {
                    assert_eq!(rows(backend, &scan).await, slice, "{scan:?}");
                }
            }
        }
    }
    let all = Bound::Unbounded;
    assert_eq!(rows(backend, &Scan::all(&THESIS_INDEX, index, 1_000)).await, model.slice(&all, &all, false, 1_000));
    let logged: Vec<_> = model.log.into_iter().map(|(seq, version)| (key![seq], version)).collect();
    assert_eq!(rows(backend, &Scan::all(&EVENT_LOG, log, 1_000)).await, logged);
}

fn crossed(from: &Bound<Prefix>, to: &Bound<Prefix>) -> bool {
    match (from, to) {
        (Bound::Included(from) | Bound::Excluded(from), Bound::Included(to) | Bound::Excluded(to)) => from >= to,
        _ => false,
    }
}

async fn rows(backend: &SharedBackend, scan: &Scan) -> Vec<(Vec<Value>, i64)> {
    let rows = backend.scan(scan).await.unwrap();
    for row in &rows {
        assert_eq!(row.body, super::body(&row.version.to_string()));
    }
    rows.into_iter().map(|row| (row.clustering, row.version)).collect()
}

pub(crate) async fn random_operations_match_a_map(backend: &SharedBackend) {
    let config = Config { cases: 24, failure_persistence: None, ..Config::default() };
    let operations = prop::collection::vec(operation(), 1..40);
    let runtime = tokio::runtime::Handle::current();
    tokio::task::block_in_place(|| {
        TestRunner::new(config).run(&operations, |operations| {
            runtime.block_on(run(backend, operations));
            Ok(())
        })
    })
    .unwrap();
}
