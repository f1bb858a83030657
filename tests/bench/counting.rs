//! A store that counts its writes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use core_service::store::{
    Backend, Change, Consistency, Row, Scan, SharedBackend, StoreResult, Table, Transaction, Value, schema,
};

/// A store with its counts.
pub(crate) struct Counting {
    store: SharedBackend,
    /// Entries written or deleted.
    pub(crate) entries: AtomicU64,
    /// Conditional batches that were added to a log.
    pub(crate) appends: AtomicU64,
}

impl Counting {
    pub(crate) fn new(store: SharedBackend) -> Self {
        Self { store, entries: AtomicU64::new(0), appends: AtomicU64::new(0) }
    }
}

#[async_trait]
impl Backend for Counting {
    async fn get(&self, table: &'static Table, key: &[Value], consistency: Consistency) -> StoreResult<Option<Row>> {
        self.store.get(table, key, consistency).await
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        self.store.get_many(table, keys).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        self.store.scan(scan).await
    }

    async fn scan_many(&self, scans: &[Scan]) -> StoreResult<Vec<Vec<Row>>> {
        self.store.scan_many(scans).await
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        self.entries.fetch_add(changes.len() as u64, Relaxed);
        self.store.apply(changes).await
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        self.transact_with(transaction, Vec::new()).await
    }

    async fn transact_with(&self, transaction: Transaction, beside: Vec<Change>) -> StoreResult<bool> {
        let (entries, of_log) =
            (transaction.writes.len() + beside.len(), transaction.table.name == schema::EVENT_LOG.name);
        let done = self.store.transact_with(transaction, beside).await?;
        if done {
            self.entries.fetch_add(entries as u64, Relaxed);
            self.appends.fetch_add(of_log.into(), Relaxed);
        }
        Ok(done)
    }

    fn is_exclusive(&self) -> bool {
        self.store.is_exclusive()
    }

    async fn sync(&self) -> StoreResult<()> {
        self.store.sync().await
    }

    async fn check(&self) -> StoreResult<()> {
        self.store.check().await
    }

    async fn sweep(&self, now_ms: i64) -> StoreResult<()> {
        self.store.sweep(now_ms).await
    }

    async fn close(&self) -> StoreResult<()> {
        self.store.close().await
    }
}
