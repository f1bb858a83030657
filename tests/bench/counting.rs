//! A store that counts what is written to it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use core_service::store::{
    Backend, Change, Consistency, Row, Scan, StoreResult, Table, Transaction, Value, embedded::EmbeddedStore,
};

/// The embedded store with its counts.
pub(crate) struct Counting {
    pub(crate) store: EmbeddedStore,
    /// Entries written or deleted.
    pub(crate) entries: AtomicU64,
    /// Conditional writes: appends, nearly all.
    pub(crate) transactions: AtomicU64,
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

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        self.entries.fetch_add(changes.len() as u64, Relaxed);
        self.store.apply(changes).await
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        self.entries.fetch_add(transaction.writes.len() as u64, Relaxed);
        self.transactions.fetch_add(1, Relaxed);
        self.store.transact(transaction).await
    }

    fn is_exclusive(&self) -> bool {
        self.store.is_exclusive()
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
