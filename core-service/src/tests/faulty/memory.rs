//! A store that keeps its rows in maps: quick, without threads, and easy to copy.

use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    store::{
        Backend, Change, Consistency, Expect, Row, Scan, StoreResult, Table, Transaction, Value,
        embedded::is_in_log_file,
    },
    tests::conformance::conformance_tests,
};

conformance_tests!(shared, Some(std::sync::Arc::new(super::MemoryStore::new(false)) as crate::store::SharedBackend));
conformance_tests!(exclusive, Some(std::sync::Arc::new(super::MemoryStore::new(true)) as crate::store::SharedBackend));

/// A version and a body; no body where a deletion is remembered.
type StoredVersion = (i64, Option<Bytes>);
type Partitions = BTreeMap<Vec<Value>, BTreeMap<Vec<Value>, StoredVersion>>;

/// The embedded store makes changes durable within this time.
const SYNC_INTERVAL: Duration = Duration::from_secs(1);

/// The old value of a row.
#[derive(Clone)]
struct Undo {
    at: Instant,
    table: &'static str,
    partition: Vec<Value>,
    clustering: Vec<Value>,
    before: Option<StoredVersion>,
}

#[derive(Clone, Default)]
struct Tables {
    rows: BTreeMap<&'static str, Partitions>,
    /// The old value for each change that is not synced, newest last.
    unsynced: Vec<Undo>,
    /// Only writes make changes durable, and no time does.
    needs_sync: bool,
}

impl Tables {
    fn set(&mut self, table: &'static Table, partition: &[Value], clustering: &[Value], stored: Option<StoredVersion>) {
        let rows = self.rows.entry(table.name).or_default().entry(partition.to_vec()).or_default();
        let before = match stored {
            Some(stored) => rows.insert(clustering.to_vec(), stored),
            None => rows.remove(clustering),
        };
        if !is_in_log_file(table.name) {
            let (partition, clustering) = (partition.to_vec(), clustering.to_vec());
            self.unsynced.push(Undo { at: Instant::now(), table: table.name, partition, clustering, before });
        }
    }

    /// Forgets the changes that became durable as time went by.
    fn forget_durable(&mut self) {
        let needs_sync = self.needs_sync;
        self.unsynced.retain(|undo| needs_sync || undo.at.elapsed() < SYNC_INTERVAL);
    }

    fn stored(&self, table: &Table, key: &[Value]) -> Option<&StoredVersion> {
        let (partition, clustering) = key.split_at(table.partition.len());
        self.rows.get(table.name)?.get(partition)?.get(clustering)
    }

    fn row(&self, table: &Table, key: &[Value]) -> Option<Row> {
        let (version, body) = self.stored(table, key)?;
        let clustering = key[table.partition.len()..].to_vec();
        Some(Row { clustering, body: body.clone()?, version: *version })
    }
}

/// A store with many writers, like CQL, or with one, like the embedded store.
pub(crate) struct MemoryStore {
    tables: Mutex<Tables>,
    exclusive: bool,
    /// Maximum number of removed rows that a scan has passed, which a node reads as well.
    max_removed_rows: AtomicUsize,
}

impl MemoryStore {
    pub(crate) fn new(exclusive: bool) -> Self {
        Self { tables: Mutex::default(), exclusive, max_removed_rows: AtomicUsize::new(0) }
    }

    /// Returns the maximum number of removed rows that a scan has passed.
    pub(crate) fn max_removed_rows(&self) -> usize {
        self.max_removed_rows.load(Ordering::Relaxed)
    }

    /// From now on only a sync or a conditional write of a row makes changes durable, and no time does.
    pub(crate) fn need_sync(&self) {
        let mut tables = self.tables.lock();
        tables.forget_durable();
        tables.needs_sync = true;
    }

    /// Inserts durable rows without checks.
    pub(crate) fn fill(&self, table: &'static Table, rows: Vec<(Vec<Value>, Row)>) {
        let mut tables = self.tables.lock();
        let partitions = tables.rows.entry(table.name).or_default();
        for (mut partition, row) in rows {
            let clustering = partition.split_off(table.partition.len());
            partitions.entry(partition).or_default().insert(clustering, (row.version, Some(row.body)));
        }
    }

    /// Another store with the same rows.
    pub(crate) fn copy(&self) -> Arc<Self> {
        let mut tables = self.tables.lock();
        tables.forget_durable();
        Arc::new(Self { tables: Mutex::new(tables.clone()), ..Self::new(self.exclusive) })
    }

    /// Drops the changes of the last second that no later sync or conditional write of a row has made durable. Logs
    /// and their trees keep everything.
    pub(crate) fn lose_power(&self) {
        let mut tables = self.tables.lock();
        tables.forget_durable();
        while let Some(Undo { table, partition, clustering, before, .. }) = tables.unsynced.pop() {
            let rows = tables.rows.entry(table).or_default().entry(partition).or_default();
            match before {
                Some(before) => rows.insert(clustering, before),
                None => rows.remove(&clustering),
            };
        }
    }

    /// True if a table has exactly the same rows and remembered deletions in both stores.
    pub(crate) fn same(&self, other: &Self, table: &Table) -> bool {
        self.tables.lock().rows.get(table.name) == other.tables.lock().rows.get(table.name)
    }

    /// Visits every row of a table: partition, clustering, version.
    pub(crate) fn each(&self, table: &Table, mut visit: impl FnMut(&[Value], &[Value], i64)) {
        for (partition, rows) in self.tables.lock().rows.get(table.name).into_iter().flatten() {
            for (clustering, (version, body)) in rows {
                if body.is_some() {
                    visit(partition, clustering, *version);
                }
            }
        }
    }

    /// Every row of a table with its whole key.
    pub(crate) fn all(&self, table: &Table) -> Vec<(Vec<Value>, Row)> {
        let tables = self.tables.lock();
        let partitions = tables.rows.get(table.name).into_iter().flatten();
        let rows = partitions.flat_map(|(partition, rows)| {
            rows.keys().filter_map(|clustering| {
                let key = [partition.as_slice(), clustering].concat();
                let row = tables.row(table, &key)?;
                Some((key, row))
            })
        });
        rows.collect()
    }
}

fn within(clustering: &[Value], from: &Bound<Vec<Value>>, to: &Bound<Vec<Value>>) -> bool {
    let cut = |bound: &[Value]| clustering[..bound.len().min(clustering.len())].cmp(bound);
    (match from {
        Bound::Unbounded => true,
        Bound::Included(bound) => cut(bound).is_ge(),
        Bound::Excluded(bound) => cut(bound).is_gt(),
    }) && match to {
        Bound::Unbounded => true,
        Bound::Included(bound) => cut(bound).is_le(),
        Bound::Excluded(bound) => cut(bound).is_lt(),
    }
}

#[async_trait]
impl Backend for MemoryStore {
    async fn get(&self, table: &'static Table, key: &[Value], _: Consistency) -> StoreResult<Option<Row>> {
        Ok(self.tables.lock().row(table, key))
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        let tables = self.tables.lock();
        Ok(keys.iter().map(|key| tables.row(table, key)).collect())
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        let tables = self.tables.lock();
        let rows = tables.rows.get(scan.table.name).and_then(|partitions| partitions.get(&scan.partition));
        let begin = match &scan.from {
            Bound::Included(bound) | Bound::Excluded(bound) => Bound::Included(bound.clone()),
            Bound::Unbounded => Bound::Unbounded,
        };
        let rows = rows.into_iter().flat_map(|rows| rows.range::<Vec<Value>, _>((begin.clone(), Bound::Unbounded)));
        let rows = rows
            .take_while(|(clustering, _)| within(clustering, &Bound::Unbounded, &scan.to))
            .filter(|(clustering, _)| within(clustering, &scan.from, &Bound::Unbounded));
        let row = |clustering: &Vec<Value>, version: i64, body: &Bytes| Row {
            clustering: clustering.clone(),
            body: body.clone(),
            version,
        };
        let (mut found, mut removed) = (Vec::new(), 0);
        for (clustering, (version, body)) in rows {
            if !scan.reverse && found.len() == scan.limit {
                break;
            }
            match body {
                Some(body) => found.push(row(clustering, *version, body)),
                None => removed += 1,
            }
        }
        if scan.reverse {
            found.reverse();
            found.truncate(scan.limit);
        }
        self.max_removed_rows.fetch_max(removed, Ordering::Relaxed);
        Ok(found)
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        let mut tables = self.tables.lock();
        for change in changes {
            if tables.stored(change.table, &change.key).is_some_and(|(version, _)| *version > change.version) {
                continue;
            }
            let (partition, clustering) = change.key.split_at(change.table.partition.len());
            // The embedded store remembers no deletions.
            let stored = (change.body.is_some() || !self.exclusive).then_some((change.version, change.body));
            tables.set(change.table, partition, clustering, stored);
        }
        Ok(())
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        let Transaction { table, partition, writes, .. } = transaction;
        let mut tables = self.tables.lock();
        let holds = writes.iter().all(|write| {
            let key = [partition.as_slice(), &write.clustering].concat();
            let version = tables.row(table, &key).map(|row| row.version);
            match write.expect {
                Expect::Any => true,
                Expect::Absent => version.is_none(),
                Expect::Version(expected) => version == Some(expected),
            }
        });
        if holds {
            for write in writes {
                let stored = write.body.map(|body| (write.version, Some(body)));
                tables.set(table, &partition, &write.clustering, stored);
            }
            if is_in_log_file(table.name) {
                tables.forget_durable();
            } else {
                tables.unsynced.clear();
            }
        }
        Ok(holds)
    }

    fn is_exclusive(&self) -> bool {
        self.exclusive
    }

    async fn sync(&self) -> StoreResult<()> {
        self.tables.lock().unsynced.clear();
        Ok(())
    }

    async fn check(&self) -> StoreResult<()> {
        Ok(())
    }

    async fn sweep(&self, _: i64) -> StoreResult<()> {
        Ok(())
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
