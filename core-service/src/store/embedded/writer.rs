//! The only thread that writes. It commits all waiting writes together: in the log's file, then in the rows' file. So
//! no row is ever ahead of its log.

use std::{
    fs::File,
    mem,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
};

use parking_lot::RwLock;
use redb::{ReadTransaction, ReadableDatabase as _};
use thesis_net::clock::SharedClock;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{
    batch::{Batch, Write, WriteOutcome},
    database::{self, OpenStore, Target, store_error},
    disk::{Disk, Fence},
    read,
    store_files::Files,
    unsynced::{SYNC_INTERVAL, Unsynced, has_passed},
};
use crate::store::{StoreError, StoreResult, Value};

/// Maximum number of writes in one commit.
const MAX_GROUP: usize = 512;

/// A write and its caller.
pub(super) struct Job {
    pub(super) write: Write,
    pub(super) caller: Caller,
}

/// The channel for the outcome of a write.
pub(super) struct Caller {
    pub(super) done: oneshot::Sender<StoreResult<WriteOutcome>>,
    pub(super) room: OwnedSemaphorePermit,
}

pub(super) enum Message {
    Write(Job),
    /// A read failed on this generation of the database.
    Heal {
        generation: u64,
        done: oneshot::Sender<()>,
    },
    /// Reads both files between two commits.
    Snapshot(oneshot::Sender<StoreResult<Files<ReadTransaction>>>),
    Close(oneshot::Sender<StoreResult<()>>),
}

/// The database as readers see it.
#[derive(Default)]
pub(super) struct CurrentDatabase {
    /// `None` when closed, or when it could not be opened again.
    pub(super) store: Option<Arc<OpenStore>>,
    /// Number of times that the database was opened.
    pub(super) generation: u64,
    /// The reason why writes fail at present.
    pub(super) failure: Option<String>,
}

pub(super) struct Writer {
    pub(super) messages: Receiver<Message>,
    pub(super) current: Arc<RwLock<CurrentDatabase>>,
    pub(super) disks: Files<Disk>,
    pub(super) fence: Fence,
    /// The name of both files' folder in errors.
    pub(super) folder: String,
    pub(super) cache_bytes: usize,
    pub(super) clock: SharedClock,
    /// The lock of the data folder while the files are in use.
    pub(super) lock: Option<File>,
    pub(super) unsynced: Unsynced,
    /// The time of the last attempt to open the files again.
    pub(super) opened_again_at: Option<i64>,
}

impl Writer {
    /// Works until it gets a close message, or until no sender is left.
    pub(super) fn run(mut self) {
        let mut closing = None;
        while closing.is_none() {
            let needs_sync = !self.unsynced.is_empty() || self.current.read().failure.is_some();
            let first = if needs_sync {
                self.messages.recv_timeout(SYNC_INTERVAL)
            } else {
                self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            };
            match first {
                Ok(first) => closing = self.handle_messages(first),
                Err(RecvTimeoutError::Timeout) => drop(self.sync_all()),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        // A disk that failed a moment ago gets a last attempt.
        self.opened_again_at = None;
        let settled = self.sync_all();
        if settled.is_ok() {
            self.note_commits();
        }
        // Reads under way are short, and the last of them closes the database. A backup does not hold it: its next read
        // of the file fails, and so it ends.
        let closed = CurrentDatabase { failure: Some("the store is closed".to_owned()), ..CurrentDatabase::default() };
        let last = mem::replace(&mut *self.current.write(), closed);
        drop(last);
        drop(self.lock.take());
        if let Some(done) = closing {
            let _ = done.send(settled);
        }
    }

    /// Handles a message and all messages that wait behind it.
    fn handle_messages(&mut self, first: Message) -> Option<oneshot::Sender<StoreResult<()>>> {
        let mut jobs = Vec::new();
        let mut next = Some(first);
        while let Some(message) = next {
            match message {
                Message::Write(job) => jobs.push(job),
                Message::Heal { generation, done } => {
                    if generation == self.current.read().generation {
                        self.reopen();
                    }
                    let _ = done.send(());
                }
                Message::Snapshot(done) => {
                    self.write(mem::take(&mut jobs));
                    let _ = done.send(self.snapshots());
                }
                Message::Close(done) => {
                    self.write(jobs);
                    return Some(done);
                }
            }
            next = if jobs.len() < MAX_GROUP { self.messages.try_recv().ok() } else { None };
        }
        self.write(jobs);
        None
    }

    fn write(&mut self, jobs: Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        let store = match self.writable() {
            Ok(store) => store,
            Err(error) => {
                for job in jobs {
                    job.caller.answer(Err(error.clone()));
                }
                return;
            }
        };
        let writes: Vec<&Write> = jobs.iter().map(|job| &job.write).collect();
        let now_ms = self.clock.now_ms();
        let committed = self.commit(&store, &writes, now_ms);
        drop(store);
        match committed {
            Ok((outcomes, is_unsynced)) => {
                for (Job { write, caller }, outcome) in jobs.into_iter().zip(outcomes) {
                    if is_unsynced {
                        self.unsynced.extend(write.into_rows());
                    }
                    caller.answer(Ok(outcome));
                }
                // A flush comes after the answers: if it fails, nothing that they acknowledge is in doubt.
                if self.unsynced.is_due(now_ms) {
                    drop(self.sync_all());
                }
            }
            Err(error) => {
                tracing::error!(folder = self.folder, %error, "a write failed; opening the store again");
                self.reopen();
                for Job { write, caller } in jobs {
                    caller.answer(Err(if self.may_have_happened(&write) {
                        StoreError::InDoubt(format!("{}: {error}", self.folder))
                    } else {
                        store_error(&self.folder, &error)
                    }));
                }
            }
        }
    }

    /// The open files, if they can be written. After a failure they are opened again first, at most once in an
    /// interval: each attempt repeats the changes that are not durable.
    fn writable(&mut self) -> StoreResult<Arc<OpenStore>> {
        let is_failing = self.current.read().failure.is_some();
        let now_ms = self.clock.now_ms();
        if is_failing && self.opened_again_at.is_none_or(|at| has_passed(SYNC_INTERVAL, at, now_ms)) {
            self.reopen();
        }
        let current = self.current.read();
        match (&current.store, &current.failure) {
            (Some(store), None) => Ok(store.clone()),
            (_, failure) => Err(StoreError::Unavailable(failure.clone().unwrap_or_default())),
        }
    }

    /// Commits writes. Returns their outcomes, and whether they changed rows that are not durable yet.
    fn commit(
        &mut self,
        store: &OpenStore,
        writes: &[&Write],
        now_ms: i64,
    ) -> Result<(Vec<WriteOutcome>, bool), redb::Error> {
        let has_unsynced = !self.unsynced.is_empty();
        let (outcomes, changes_rows, is_durable) = database::guarded(|| {
            let tx = database::begin_write(&store.databases)?;
            let mut batch = Batch::new(&tx, &store.numbers, now_ms);
            let outcomes = writes.iter().map(|write| batch.run(write)).collect::<Result<Vec<_>, _>>()?;
            let (written, new_numbers) = batch.close();
            let changed = outcomes.iter().any(|outcome| *outcome != WriteOutcome::Transacted(false));
            // The log's file comes first. If the second commit fails, the rows still follow from the log.
            if changed && written.log {
                store.commit_log(tx.log, true)?;
                store.numbers.extend(new_numbers);
            } else {
                tx.log.abort()?;
            }
            let changes_rows = changed && written.rows;
            let syncs_rows = writes.iter().zip(&outcomes).any(|(write, outcome)| write.syncs_rows(*outcome));
            let is_durable = syncs_rows && (changes_rows || has_unsynced);
            if changes_rows || is_durable {
                store.commit_rows(tx.rows, is_durable)?;
            } else {
                tx.rows.abort()?;
            }
            Ok((outcomes, changes_rows, is_durable))
        })?;
        if is_durable {
            self.unsynced.clear();
        } else if changes_rows {
            self.unsynced.note_commit(now_ms);
        }
        Ok((outcomes, changes_rows && !is_durable))
    }

    /// Makes all changes durable.
    fn sync_all(&mut self) -> StoreResult<()> {
        let store = self.writable()?;
        if self.unsynced.is_empty() {
            return Ok(());
        }
        let committed = database::guarded(|| store.commit_rows(store.databases.rows.begin_write()?, true));
        drop(store);
        if let Err(error) = committed {
            tracing::error!(folder = self.folder, %error, "a commit failed; opening the store again");
            self.reopen();
            return self.writable().map(drop);
        }
        self.unsynced.clear();
        Ok(())
    }

    /// Makes each file note the last commit of the other one. If it fails, no change is lost.
    fn note_commits(&self) {
        let Some(store) = self.current.read().store.clone() else { return };
        if let Err(error) = store.note_commits() {
            tracing::warn!(folder = self.folder, %error, "the files did not note each other's last commits");
            // A database that is dropped after a failed commit would write again.
            self.fence.close();
        }
    }

    /// Opens both files again: on the disk if both can be written there, otherwise with writes in memory, so that reads
    /// continue. Repeats the acknowledged changes that are not durable.
    fn reopen(&mut self) {
        self.opened_again_at = Some(self.clock.now_ms());
        self.fence.close();
        let mut opened = self.open(Target::Disk);
        let failure = opened.as_ref().err().map(|error| format!("{}: {error}", self.folder));
        if failure.is_some() {
            opened = self.open(Target::Memory);
        } else {
            self.unsynced.clear();
        }
        match &failure {
            Some(_) if self.current.read().failure.is_some() => {}
            Some(failure) => tracing::error!(failure, "the store can only be read"),
            None => tracing::info!(folder = self.folder, "the store was opened again"),
        }
        let store = opened.ok().map(|(store, fence)| {
            self.fence = fence;
            Arc::new(store)
        });
        let mut current = self.current.write();
        let generation = current.generation + 1;
        let replaced = mem::replace(&mut *current, CurrentDatabase { store, generation, failure });
        drop(current);
        drop(replaced);
    }

    fn open(&self, target: Target) -> Result<(OpenStore, Fence), redb::Error> {
        let (fence, caches) = (Fence::default(), database::caches(self.cache_bytes));
        // The fence closes before a database is dropped, which would otherwise write again.
        let log = database::open(&self.disks.log, target, &fence, caches.log, false)?;
        let rows = database::open(&self.disks.rows, target, &fence, caches.rows, false);
        let rows = rows.inspect_err(|_| fence.close())?;
        let store = OpenStore::load(Files { log, rows }, &fence)?;
        let repeated = database::guarded(|| {
            let tx = database::begin_write(&store.databases)?;
            let mut batch = Batch::new(&tx, &store.numbers, self.clock.now_ms());
            batch.apply(self.unsynced.changes())?;
            let (_, new_numbers) = batch.close();
            let is_durable = target == Target::Disk;
            store.commit_log(tx.log, is_durable)?;
            store.commit_rows(tx.rows, is_durable)?;
            store.numbers.extend(new_numbers);
            Ok(())
        });
        repeated.inspect_err(|_| fence.close())?;
        Ok((store, fence))
    }

    /// Both files as they are after the last commit.
    fn snapshots(&self) -> StoreResult<Files<ReadTransaction>> {
        let current = self.current.read();
        let Some(store) = &current.store else {
            return Err(StoreError::Unavailable(current.failure.clone().unwrap_or_default()));
        };
        let begun = database::guarded(|| {
            store.databases.as_ref().try_map(|database| Ok::<_, redb::Error>(database.begin_read()?))
        });
        begun.map_err(|error| store_error(&self.folder, &error))
    }

    /// True if a conditional write may be stored although its commit failed.
    fn may_have_happened(&self, write: &Write) -> bool {
        let Write::Transact(transaction, _) = write else {
            return false;
        };
        let Some(store) = self.current.read().store.clone() else {
            return true;
        };
        let keys: Vec<Vec<Value>> = transaction
            .writes
            .iter()
            .map(|write| [transaction.partition.as_slice(), &write.clustering].concat())
            .collect();
        let rows = database::guarded(|| {
            read::rows(&store.snapshot(transaction.table)?, transaction.table, keys.iter().map(Vec::as_slice))
        });
        rows.map_or(true, |rows| {
            transaction.writes.iter().zip(rows).all(|(write, row)| match (&write.body, row) {
                (Some(body), Some(row)) => row.version == write.version && row.body == body,
                (None, None) => true,
                _ => false,
            })
        })
    }
}

impl Caller {
    fn answer(self, answer: StoreResult<WriteOutcome>) {
        // It may have stopped waiting.
        let _ = self.done.send(answer);
        drop(self.room);
    }
}
