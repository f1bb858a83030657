//! A store that can hold up the rows of a log.

use async_trait::async_trait;
use parking_lot::Mutex;

use super::*;
use crate::{
    log::projection::ROWS,
    store::{Backend, Row, Scan, StoreError, StoreResult, Table, Transaction, Value},
};

/// The outcome of writes of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowWrites {
    Pass,
    Wait,
    Fail,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// An append, with the head after it.
    Log(i64),
    /// The checkpoint of the rows.
    Rows(i64),
}

/// A store that notes the appends to a log and the checkpoints of its rows.
pub(super) struct Gate {
    store: SharedBackend,
    name: Value,
    rows: watch::Sender<RowWrites>,
    written: Mutex<Vec<Written>>,
}

impl Gate {
    pub(super) fn on(store: &SharedBackend, dataset: &Dataset) -> Arc<Self> {
        let (store, name) = (Arc::clone(store), Value::from(dataset.to_string()));
        Arc::new(Self { store, name, rows: watch::Sender::new(RowWrites::Pass), written: Mutex::default() })
    }

    pub(super) fn set(&self, rows: RowWrites) {
        self.rows.send_replace(rows);
    }

    pub(super) fn written(&self) -> Vec<Written> {
        self.written.lock().clone()
    }

    pub(super) fn appends(&self) -> usize {
        self.written().iter().filter(|written| matches!(written, Written::Log(_))).count()
    }

    pub(super) fn checkpoints(&self) -> Vec<i64> {
        let written = self.written().into_iter();
        written.filter_map(|written| if let Written::Rows(upto) = written { Some(upto) } else { None }).collect()
    }

    fn is_checkpoint(&self, change: &Change) -> bool {
        change.table.name == schema::LOG_CHECKPOINT.name && change.key[0] == self.name && change.key[1].text() == ROWS
    }

    fn is_row(&self, change: &Change) -> bool {
        change.key.first() == Some(&self.name) && change.table.name != schema::LOG_CHECKPOINT.name
    }
}

#[async_trait]
impl Backend for Gate {
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
        let checkpoint = changes.iter().find(|change| self.is_checkpoint(change)).map(|change| change.version);
        if checkpoint.is_some() || changes.iter().any(|change| self.is_row(change)) {
            let mut rows = self.rows.subscribe();
            let rows = *rows.wait_for(|rows| *rows != RowWrites::Wait).await.unwrap();
            if rows == RowWrites::Fail {
                return Err(StoreError::Unavailable("the gate is shut".to_owned()));
            }
        }
        self.store.apply(changes).await?;
        self.written.lock().extend(checkpoint.map(Written::Rows));
        Ok(())
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        let is_append =
            transaction.table.name == schema::EVENT_LOG.name && transaction.partition.first() == Some(&self.name);
        let head = transaction.writes.first().filter(|_| is_append).map(|write| write.version);
        let holds = self.store.transact(transaction).await?;
        self.written.lock().extend(head.filter(|_| holds).map(Written::Log));
        Ok(holds)
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
        Ok(())
    }
}
