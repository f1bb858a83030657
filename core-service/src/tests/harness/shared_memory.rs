//! A store in memory that several cores share, with failures and counts.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockWriteGuard, RwLock, RwLockReadGuard};

use super::{ManualClock, memory};
use crate::{
    store::{
        Backend, Change, Consistency, Row, Scan, SharedBackend, StoreError, StoreResult, Table, Transaction, Value,
        scylla::{batches::batches, key_groups::key_groups},
    },
    tests::faulty::MemoryStore,
};

/// A store in memory that reports other writers, so that several cores may share it.
pub(crate) struct SharedMemory {
    store: SharedBackend,
    away: AtomicBool,
    /// A lock that every call takes; a test that holds it makes calls wait.
    passage: Arc<RwLock<()>>,
    /// Calls that have come to that lock, and those that have taken it.
    arrived: AtomicUsize,
    passed: AtomicUsize,
    /// The partitions whose transactions, changes and reads fail.
    refused: Mutex<Option<Value>>,
    unchangeable: Mutex<Option<Vec<Value>>>,
    unreadable: Mutex<Option<Value>>,
    /// The table whose next transaction finds a row that another writer has changed.
    contested: Mutex<Option<&'static str>>,
    /// Calls made, by table.
    calls: Mutex<HashMap<&'static str, usize>>,
    /// Changes applied, by table.
    applied: Mutex<HashMap<&'static str, usize>>,
    /// Scans and the rows that they returned, by table.
    scans: Mutex<HashMap<&'static str, (usize, usize)>>,
    /// Requests by table, if each partition had its own.
    partition_requests: Mutex<HashMap<&'static str, usize>>,
    /// The name in the keys of the requests that are counted, and their number.
    requests: Mutex<(Value, usize)>,
}

impl SharedMemory {
    pub(crate) fn new(clock: &Arc<ManualClock>) -> Arc<Self> {
        Self::on(memory(clock))
    }

    /// A store without threads of its own: on a paused clock no time passes during its calls.
    pub(crate) fn without_threads() -> Arc<Self> {
        Self::on(Arc::new(MemoryStore::new(false)))
    }

    /// A second connection to this store, for another core. It has its own failures and counts.
    pub(crate) fn beside(&self) -> Arc<Self> {
        Self::on(Arc::clone(&self.store))
    }

    /// A connection to a store that a test has filled.
    pub(crate) fn on(store: SharedBackend) -> Arc<Self> {
        let (away, calls, contested) = (AtomicBool::new(false), Mutex::default(), Mutex::default());
        let (refused, unchangeable, unreadable) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (applied, scans, partition_requests) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (passage, requests) = (Arc::default(), Mutex::new((Value::Int(0), 0)));
        Arc::new(Self {
            store,
            away,
            passage,
            arrived: AtomicUsize::new(0),
            passed: AtomicUsize::new(0),
            refused,
            unchangeable,
            unreadable,
            contested,
            calls,
            applied,
            scans,
            partition_requests,
            requests,
        })
    }

    /// Makes every call wait until the guard is dropped. Calls that are worked on end first.
    pub(crate) async fn hold(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.passage).write_owned().await
    }

    async fn pass(&self) -> RwLockReadGuard<'_, ()> {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        let passing = self.passage.read().await;
        self.passed.fetch_add(1, Ordering::SeqCst);
        passing
    }

    /// Returns the number of calls that a held lock makes wait, with those whose callers have given up.
    pub(crate) fn waiting(&self) -> usize {
        self.arrived.load(Ordering::SeqCst) - self.passed.load(Ordering::SeqCst)
    }

    /// Returns the number of calls that read or write a table.
    pub(crate) fn calls(&self, table: &Table) -> usize {
        self.calls.lock().get(table.name).copied().unwrap_or_default()
    }

    /// Returns the number of requests for a table, if each partition of a write and each row of a read had its own. A
    /// cluster gets no more, and fewer where small partitions or similar keys share one.
    pub(crate) fn partition_requests(&self, table: &Table) -> usize {
        self.partition_requests.lock().get(table.name).copied().unwrap_or_default()
    }

    /// Returns the number of these requests for all tables together.
    pub(crate) fn total_partition_requests(&self) -> usize {
        self.partition_requests.lock().values().sum()
    }

    fn called(&self, table: &Table, requests: usize) {
        *self.calls.lock().entry(table.name).or_default() += 1;
        *self.partition_requests.lock().entry(table.name).or_default() += requests;
    }

    /// Begins to count the requests of a cluster that have this name in a key.
    pub(crate) fn count_requests(&self, name: &str) {
        *self.requests.lock() = (Value::from(name), 0);
    }

    /// Returns the number of these requests.
    pub(crate) fn requests(&self) -> usize {
        self.requests.lock().1
    }

    /// Counts a request with these keys.
    fn requested<'a>(&self, mut keys: impl Iterator<Item = &'a [Value]>) {
        let mut requests = self.requests.lock();
        let has_name = keys.any(|key| key.contains(&requests.0));
        requests.1 += usize::from(has_name);
    }

    /// Returns the number of scans of a table.
    pub(crate) fn scans(&self, table: &Table) -> usize {
        self.scans.lock().get(table.name).copied().unwrap_or_default().0
    }

    /// Returns the number of rows that scans of a table returned.
    pub(crate) fn scanned_rows(&self, table: &Table) -> usize {
        self.scans.lock().get(table.name).copied().unwrap_or_default().1
    }

    /// Returns the number of applied changes of a table.
    pub(crate) fn applied(&self, table: &Table) -> usize {
        self.applied.lock().get(table.name).copied().unwrap_or_default()
    }

    /// Makes every call fail, or work again.
    pub(crate) fn set_away(&self, away: bool) {
        self.away.store(away, Ordering::SeqCst);
    }

    /// Makes the transactions on a partition fail; none fail with none.
    pub(crate) fn refuse(&self, partition: Option<String>) {
        *self.refused.lock() = partition.map(Value::from);
    }

    /// Lets the next transaction of a table find that another writer has changed a row.
    pub(crate) fn lose_next(&self, table: &Table) {
        *self.contested.lock() = Some(table.name);
    }

    /// Makes the changes of rows fail whose keys begin like this; none fail with none.
    pub(crate) fn refuse_changes(&self, key: Option<&[Value]>) {
        *self.unchangeable.lock() = key.map(<[Value]>::to_vec);
    }

    /// Makes the reads of a partition fail; none fail with none.
    pub(crate) fn refuse_reads(&self, partition: Option<&str>) {
        *self.unreadable.lock() = partition.map(Value::from);
    }

    /// The store, for a read of a row with this key or of this partition.
    fn store_of(&self, key: &[Value]) -> StoreResult<&SharedBackend> {
        if self.unreadable.lock().as_ref().is_some_and(|unreadable| key.first() == Some(unreadable)) {
            return Err(StoreError::Unavailable("unreadable".to_owned()));
        }
        self.store()
    }

    fn store(&self) -> StoreResult<&SharedBackend> {
        if self.away.load(Ordering::SeqCst) {
            return Err(StoreError::Unavailable("away".to_owned()));
        }
        Ok(&self.store)
    }
}

#[async_trait]
impl Backend for SharedMemory {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        let _passing = self.pass().await;
        self.called(table, 1);
        self.requested([key].into_iter());
        self.store_of(key)?.get(table, key, consistency).await
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        let _passing = self.pass().await;
        self.called(table, keys.len());
        for group in key_groups(table, keys) {
            self.requested(group.keys.into_iter());
        }
        for key in keys {
            self.store_of(key)?;
        }
        self.store()?.get_many(table, keys).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        let _passing = self.pass().await;
        self.called(scan.table, 1);
        self.scans.lock().entry(scan.table.name).or_default().0 += 1;
        self.requested([scan.partition.as_slice()].into_iter());
        let rows = self.store_of(&scan.partition)?.scan(scan).await?;
        self.scans.lock().entry(scan.table.name).or_default().1 += rows.len();
        Ok(rows)
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        let _passing = self.pass().await;
        let mut partitions: HashMap<&'static str, HashSet<&[Value]>> = HashMap::new();
        for change in &changes {
            *self.applied.lock().entry(change.table.name).or_default() += 1;
            partitions.entry(change.table.name).or_default().insert(&change.key[..change.table.partition.len()]);
        }
        for (table, partitions) in partitions {
            *self.calls.lock().entry(table).or_default() += 1;
            *self.partition_requests.lock().entry(table).or_default() += partitions.len();
        }
        let unchangeable = self.unchangeable.lock().clone();
        if unchangeable.is_some_and(|key| changes.iter().any(|change| change.key.starts_with(&key))) {
            return Err(StoreError::Unavailable("unchangeable".to_owned()));
        }
        for batch in batches(changes.clone()) {
            self.requested(batch.iter().map(|change| change.key.as_slice()));
        }
        self.store()?.apply(changes).await
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        let _passing = self.pass().await;
        self.called(transaction.table, 1);
        self.requested([transaction.partition.as_slice()].into_iter());
        if self.refused.lock().as_ref().is_some_and(|refused| transaction.partition.first() == Some(refused)) {
            return Err(StoreError::Unavailable("refused".to_owned()));
        }
        if self.contested.lock().take_if(|table| *table == transaction.table.name).is_some() {
            return Ok(false);
        }
        self.store()?.transact(transaction).await
    }

    fn is_exclusive(&self) -> bool {
        false
    }

    async fn sync(&self) -> StoreResult<()> {
        self.store()?.sync().await
    }

    async fn check(&self) -> StoreResult<()> {
        self.store()?.check().await
    }

    async fn sweep(&self, now_ms: i64) -> StoreResult<()> {
        self.store()?.sweep(now_ms).await
    }

    async fn close(&self) -> StoreResult<()> {
        Ok(())
    }
}
