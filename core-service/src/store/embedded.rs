//! The embedded store: two redb files that belong to one process (`store_files`).
//!
//! Reads run on the caller's thread, on a snapshot. Writes go to one thread, which commits all waiting writes together.
//! A conditional write waits for the disk. Other changes do not, unless they are synced: a crash may undo those of the
//! last second. Appends to logs and signed checkpoints stay, and the next start writes the rows that follow from the
//! logs. The last second of the other rows stays undone: counts of usage, uses of keys, and audit records of operators.

pub mod backup;
mod batch;
mod database;
mod dataset_numbers;
mod disk;
mod examine;
mod key;
mod open;
mod read;
mod row;
mod store_files;
mod summed;
#[cfg(test)]
pub(crate) mod tests;
mod text_encoding;
mod unsynced;
mod writer;

use std::{
    sync::{Arc, mpsc},
    thread,
};

use async_trait::async_trait;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Semaphore, oneshot};

#[cfg(test)]
pub(crate) use self::store_files::is_in_log_file;
use self::{
    batch::{Write, WriteOutcome},
    database::{guarded, store_error},
    read::Snapshot,
    writer::{Caller, CurrentDatabase, Job, Message},
};
pub use self::{
    examine::{Examined, examine},
    open::{OpenError, Options, engine_view, exists},
    row::version_of,
    store_files::{Files, files_in},
};
use super::{
    Backend, Backup, Change, Consistency, Row, Scan, StoreError, StoreResult, Table, Transaction, Value,
    schema::{CONTROL, EVENT_LOG},
};
use crate::metrics::STORE_RETRIES;

/// The embedded store.
pub struct EmbeddedStore {
    current: Arc<RwLock<CurrentDatabase>>,
    messages: mpsc::Sender<Message>,
    room: Arc<Semaphore>,
    /// A single permit: two backups at a time would only be slow.
    backups: Arc<Semaphore>,
    /// The names of the files and of their folder in errors.
    names: Files<String>,
    folder: String,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
}

impl EmbeddedStore {
    /// Reads the file with a table, and repeats the read if the engine must be opened again.
    async fn read<T>(
        &self,
        table: &Table,
        read: impl Fn(&Snapshot<'_>) -> Result<T, redb::Error> + Send,
    ) -> StoreResult<T> {
        let mut again = false;
        loop {
            let (store, generation) = {
                let current = self.current.read();
                (current.store.clone(), current.generation)
            };
            let Some(store) = store else {
                let failure = self.current.read().failure.clone();
                return Err(StoreError::Unavailable(failure.unwrap_or_default()));
            };
            match guarded(|| read(&store.snapshot(table)?)) {
                Ok(rows) => return Ok(rows),
                Err(error) if again || summed::is_damage(&error) => {
                    return Err(store_error(self.names.of(table.name), &error));
                }
                Err(_) => {
                    again = true;
                    STORE_RETRIES.one().increment(1);
                }
            }
            drop(store);
            let (done, healed) = oneshot::channel();
            if self.messages.send(Message::Heal { generation, done }).is_ok() {
                // The second attempt shows whether the database works again.
                let _ = healed.await;
            }
        }
    }

    /// Every row of a table with its whole key.
    #[cfg(test)]
    pub(crate) async fn all(&self, table: &'static Table) -> StoreResult<Vec<(Vec<Value>, Row)>> {
        self.read(table, |snapshot| read::all(snapshot, table)).await
    }

    async fn write(&self, write: Write) -> StoreResult<WriteOutcome> {
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        let room = self.room.clone().acquire_owned().await.map_err(|_| closed())?;
        let (done, outcome) = oneshot::channel();
        self.messages.send(Message::Write(Job { write, caller: Caller { done, room } })).map_err(|_| closed())?;
        outcome.await.unwrap_or_else(|_| Err(StoreError::InDoubt("the store was closed meanwhile".to_owned())))
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        let (done, _) = oneshot::channel();
        let _ = self.messages.send(Message::Close(done));
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

#[async_trait]
impl Backend for EmbeddedStore {
    async fn get(&self, table: &'static Table, key: &[Value], _consistency: Consistency) -> StoreResult<Option<Row>> {
        let rows = self.read(table, |snapshot| read::rows(snapshot, table, [key].into_iter())).await?;
        Ok(rows.into_iter().next().flatten())
    }

    async fn get_many(&self, table: &'static Table, keys: &[Vec<Value>]) -> StoreResult<Vec<Option<Row>>> {
        self.read(table, |snapshot| read::rows(snapshot, table, keys.iter().map(Vec::as_slice))).await
    }

    async fn scan(&self, scan: &Scan) -> StoreResult<Vec<Row>> {
        self.read(scan.table, |snapshot| read::slice(snapshot, scan)).await
    }

    async fn scan_many(&self, scans: &[Scan]) -> StoreResult<Vec<Vec<Row>>> {
        let Some(first) = scans.first() else { return Ok(Vec::new()) };
        let is_in_log = |scan: &Scan| store_files::is_in_log_file(scan.table.name);
        debug_assert!(scans.iter().all(|scan| is_in_log(scan) == is_in_log(first)), "a snapshot is of one file");
        self.read(first.table, |snapshot| scans.iter().map(|scan| read::slice(snapshot, scan)).collect()).await
    }

    async fn apply(&self, changes: Vec<Change>) -> StoreResult<()> {
        self.write(Write::Apply(changes)).await.map(drop)
    }

    async fn transact(&self, transaction: Transaction) -> StoreResult<bool> {
        self.transact_with(transaction, Vec::new()).await
    }

    async fn transact_with(&self, transaction: Transaction, beside: Vec<Change>) -> StoreResult<bool> {
        let is_of_log = store_files::is_in_log_file(transaction.table.name);
        debug_assert!(beside.is_empty() || !is_of_log, "a durable write is in one file");
        Ok(self.write(Write::Transact(transaction, beside)).await? == WriteOutcome::Transacted(true))
    }

    fn is_exclusive(&self) -> bool {
        true
    }

    async fn sync(&self) -> StoreResult<()> {
        self.write(Write::Sync).await.map(drop)
    }

    async fn check(&self) -> StoreResult<()> {
        if let Some(failure) = self.current.read().failure.clone() {
            return Err(StoreError::Unavailable(failure));
        }
        self.read(&EVENT_LOG, |_| Ok(())).await?;
        self.read(&CONTROL, |_| Ok(())).await
    }

    async fn backup(&self, created_at_ms: i64, records: Vec<Change>) -> StoreResult<Backup> {
        let Ok(slot) = Arc::clone(&self.backups).try_acquire_owned() else { return Ok(Backup::Busy) };
        if let Err(error) = self.apply(records).await {
            // A full disk makes a backup most urgent.
            tracing::warn!(%error, "the audit log cannot record a backup, which runs all the same");
        }
        let closed = || StoreError::Unavailable("the store is closed".to_owned());
        let (done, snapshots) = oneshot::channel();
        self.messages.send(Message::Snapshot(done)).map_err(|_| closed())?;
        let snapshots = snapshots.await.map_err(|_| closed())??;
        backup::begin(snapshots, created_at_ms, self.folder.clone(), slot).map(Backup::Begun)
    }

    async fn sweep(&self, now_ms: i64) -> StoreResult<()> {
        while self.write(Write::Sweep { now_ms }).await? == (WriteOutcome::Swept { more: true }) {}
        Ok(())
    }

    async fn close(&self) -> StoreResult<()> {
        let (done, closed) = oneshot::channel();
        // Closing a second time does nothing.
        if self.messages.send(Message::Close(done)).is_err() {
            return Ok(());
        }
        closed.await.unwrap_or(Ok(()))
    }
}
