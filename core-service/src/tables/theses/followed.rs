//! Keeps cached rows and partitions right on a cluster, where other cores write too.
//!
//! Every log has a position here: a cached row of its dataset is the row after the entries up to that position, or a
//! newer one. A request first reads how far the logs of its view are projected. If that is beyond a position, the
//! entries between are applied to the cache, and the position moves. Then the request reads rows from the cache, or
//! from the store. So it never sees a row older than the projection was when the request began.
//!
//! Why a cached row is right: a projection writes rows before it reports them as projected. So a row that is read after
//! the position was learned contains all entries up to it. Such a row is cached only if the position is still the same.
//! If it has moved, an entry that changed the row may have been applied before the row came. Caching a row and moving
//! the position exclude each other, and an older row never replaces a newer one.
//!
//! A partition is read by many more requests than a row and changes more often. So it is cached also if the position
//! has moved: the entries between are applied to it first, if they are in memory. In the order of the log, the last
//! entry that changes a row decides.
//!
//! Blocks of past theses have positions of their own. A request moves the position of the log to its own one, and then
//! knows which blocks the entries up to there have changed (`past_blocks.rs`).
//!
//! One read of the projected positions serves all requests of a view that began before it. Requests that come during a
//! read share the next one. Each read is a separate task, so it goes on although its request gives up. When a read is
//! slow, another one may begin beside it. Nothing is read here without a request.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::future::join_all;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

use super::{entry_changes, past_blocks::PastBlocks, thesis_change};
use crate::{
    domain::{
        dataset::{Dataset, View},
        entry::SequencedEntry,
    },
    store::{Change, Scan, StoreError, StoreResult},
    tables::{
        log::{LogStore, ROWS, decode},
        partition_cache::CachedPartition,
        row_cache::{CachedRow, RowCache},
    },
};

/// Maximum number of entries that are applied to cached rows at once. If there are more, the rows are forgotten: the
/// request may need one of them only. It is low in tests, so tests forget rows too.
const MAX_APPLIED: u64 = if cfg!(test) { 16 } else { 200 };
/// Maximum number of logs whose rows are cached. It is low in tests, so a test can reach it.
const MAX_LOGS: usize = if cfg!(test) { 64 } else { 10_000 };
/// Time after which another read of positions may begin beside one that runs.
const SLOW_READ: Duration = Duration::from_millis(50);
/// Maximum number of reads of a view's positions that run at the same time.
const MAX_READS: usize = 2;

/// The logs of the datasets that requests read. A log that is dropped and comes again has a new epoch, so its rows are
/// read again.
pub(super) struct FollowedLogs {
    rows: Arc<RowCache>,
    past: Arc<PastBlocks>,
    store: LogStore,
    logs: Cache<Dataset, Arc<FollowedLog>>,
    views: Cache<View, Arc<FollowedView>>,
}

/// The logs of a view. Their positions are read by one request.
struct FollowedView {
    logs: Vec<Arc<FollowedLog>>,
    store: LogStore,
    reads: watch::Sender<PositionReads>,
}

/// The state of the cached rows of a log.
struct CachedPart {
    /// Cached rows are right up to here.
    position: u64,
    /// The epoch of the rows. Rows of an earlier one count as not cached.
    epoch: u64,
    /// False until a row or partition of the epoch is cached, or a request reads past blocks. Until then entries are
    /// not read.
    applies_entries: bool,
    /// Changed blocks are noted for the entries after this one, up to the position.
    noted_after: u64,
}

struct FollowedLog {
    dataset: Arc<str>,
    rows: Arc<RowCache>,
    past: Arc<PastBlocks>,
    store: LogStore,
    cached: Mutex<CachedPart>,
}

/// Reads of the projected positions, numbered from 1 in the order of their beginnings.
#[derive(Default)]
struct PositionReads {
    /// Number of the last read that has begun.
    begun: u64,
    /// The reads that run, with the times of their beginnings.
    running: BTreeMap<u64, Instant>,
    /// Number of the last read that has succeeded.
    succeeded: u64,
    /// Number of the last read that has failed, and its error.
    failed: (u64, String),
}

impl PositionReads {
    /// Begins a read and returns its number. None begins beside a read that may soon end.
    fn begin(&mut self) -> Option<u64> {
        let are_slow = self.running.values().all(|begun_at| begun_at.elapsed() >= SLOW_READ);
        if !are_slow || self.running.len() >= MAX_READS {
            return None;
        }
        self.begun += 1;
        self.running.insert(self.begun, Instant::now());
        Some(self.begun)
    }

    fn end(&mut self, number: u64, outcome: &StoreResult<()>) {
        self.running.remove(&number);
        match outcome {
            Ok(()) => self.succeeded = self.succeeded.max(number),
            Err(error) if self.failed.0 < number => self.failed = (number, error.to_string()),
            Err(_) => {}
        }
    }

    /// The outcome for requests that wait for this read or a later one; none before its end.
    fn outcome(&self, wanted: u64) -> Option<StoreResult<()>> {
        if self.succeeded >= wanted {
            return Some(Ok(()));
        }
        let (number, error) = &self.failed;
        (*number >= wanted).then(|| Err(StoreError::Unavailable(error.clone())))
    }
}

/// A read that runs. Its end is noted in any case, so no request waits for it in vain.
struct RunningRead {
    view: Arc<FollowedView>,
    number: u64,
    outcome: StoreResult<()>,
}

impl RunningRead {
    fn end(mut self, outcome: StoreResult<()>) {
        self.outcome = outcome;
    }
}

impl Drop for RunningRead {
    fn drop(&mut self) {
        self.view.reads.send_modify(|reads| reads.end(self.number, &self.outcome));
    }
}

/// A log with the position and the epoch of its cached rows when a request learned them.
pub(super) struct FollowedPosition {
    log: Arc<FollowedLog>,
    pub(super) position: u64,
    pub(super) epoch: u64,
}

impl FollowedPosition {
    pub(super) fn is_of(&self, dataset: &str) -> bool {
        *self.log.dataset == *dataset
    }
}

impl FollowedLogs {
    pub(super) fn new(rows: Arc<RowCache>, past: Arc<PastBlocks>, store: LogStore) -> Self {
        Self { rows, past, store, logs: Cache::new(MAX_LOGS), views: Cache::new(MAX_LOGS) }
    }

    fn log(&self, dataset: &Dataset) -> Arc<FollowedLog> {
        let new = || {
            let epoch = self.rows.new_epoch();
            Arc::new(FollowedLog {
                dataset: dataset.to_string().into(),
                rows: Arc::clone(&self.rows),
                past: Arc::clone(&self.past),
                store: self.store.clone(),
                cached: Mutex::new(CachedPart { position: 0, epoch, applies_entries: false, noted_after: 0 }),
            })
        };
        let Ok(log) = self.logs.get_or_insert_with(dataset, || Ok::<_, Infallible>(new()));
        log
    }

    fn view(&self, view: &View) -> Arc<FollowedView> {
        let new = || {
            let logs = view.datasets().iter().map(|dataset| self.log(dataset)).collect();
            Arc::new(FollowedView { logs, store: self.store.clone(), reads: watch::Sender::default() })
        };
        let Ok(view) = self.views.get_or_insert_with(view, || Ok::<_, Infallible>(new()));
        view
    }

    /// Makes the cached rows of a view as new as its projections are now. Returns the positions in the view's order.
    pub(super) async fn catch_up(&self, view: &View) -> StoreResult<Vec<FollowedPosition>> {
        let view = self.view(view);
        if view.wait_for_read().await.is_err() {
            // Many requests may have shared the failed read, so each tries once more.
            view.wait_for_read().await?;
        }
        let position = |log: &Arc<FollowedLog>| {
            let cached = log.cached.lock();
            FollowedPosition { log: Arc::clone(log), position: cached.position, epoch: cached.epoch }
        };
        Ok(view.logs.iter().map(position).collect())
    }

    /// Notes which past blocks the entries of a log changed, up to a projected position. Entries up to the returned
    /// position are not noted and may have changed any block.
    pub(super) async fn note_past_blocks(&self, dataset: &Dataset, projected: u64) -> u64 {
        let log = self.log(dataset);
        // If no entry were read, each block would be uncertain.
        log.cached.lock().applies_entries = true;
        log.advance(projected).await;
        log.cached.lock().noted_after
    }

    /// Caches a row that was read after its log's position was learned.
    pub(super) fn put_read<M: CachedRow>(&self, at: &FollowedPosition, id: &str, version: i64, row: &Arc<M>) {
        let mut cached = at.log.cached.lock();
        if at.position > 0 && cached.position == at.position {
            cached.applies_entries = true;
            self.rows.put(&at.log.dataset, cached.epoch, id, version, row);
        }
    }

    /// Caches the partition of a scan, which was read after its log's position was learned.
    pub(super) fn put_partition(&self, at: &FollowedPosition, scan: &Scan, mut partition: CachedPartition) {
        let is_here =
            |change: &&Change| change.table.name == scan.table.name && change.key.starts_with(&scan.partition);
        let mut position = at.position;
        loop {
            let upto = {
                let mut cached = at.log.cached.lock();
                if cached.epoch != at.epoch || cached.position - at.position > MAX_APPLIED {
                    return;
                }
                if cached.position == position {
                    cached.applies_entries = true;
                    return self.rows.partitions.put(scan, partition);
                }
                cached.position
            };
            // Each request of the dataset takes the lock, so the entries are decoded without it.
            let Some(missed) = at.log.changes_in_memory(position, upto) else { return };
            for change in missed.iter().filter(is_here) {
                partition = partition.changed(change).unwrap_or(partition);
            }
            position = upto;
        }
    }
}

impl FollowedView {
    /// Waits for a read that begins from now on, and begins it unless another one runs.
    async fn wait_for_read(self: &Arc<Self>) -> StoreResult<()> {
        let mut reads = self.reads.subscribe();
        let wanted = reads.borrow().begun + 1;
        loop {
            let outcome = reads.borrow_and_update().outcome(wanted);
            if let Some(outcome) = outcome {
                return outcome;
            }
            self.begin_read();
            // The timeout lets another read begin beside a slow one. The sender lives as long as `self`.
            let _changed = timeout(SLOW_READ, reads.changed()).await;
        }
    }

    fn begin_read(self: &Arc<Self>) {
        let mut number = None;
        self.reads.send_if_modified(|reads| {
            number = reads.begin();
            false
        });
        let Some(number) = number else { return };
        let outcome = Err(StoreError::Unavailable("the read of a log's position broke off".to_owned()));
        let read = RunningRead { view: Arc::clone(self), number, outcome };
        tokio::spawn(async move {
            let outcome = read.view.advance().await;
            read.end(outcome);
        });
    }

    /// Moves the positions to the ends of the projections.
    async fn advance(&self) -> StoreResult<()> {
        let names: Vec<&str> = self.logs.iter().map(|log| &*log.dataset).collect();
        let projected = self.store.checkpoints(&names, ROWS).await?;
        join_all(self.logs.iter().zip(projected).map(|(log, projected)| log.advance(projected))).await;
        Ok(())
    }
}

impl FollowedLog {
    /// Moves the position to one that the projection has reached.
    async fn advance(&self, projected: u64) {
        let (known, applies_entries) = {
            let cached = self.cached.lock();
            (cached.position, cached.applies_entries)
        };
        if projected <= known {
            return;
        }
        let changes = if applies_entries && projected - known <= MAX_APPLIED {
            // Without the entries the rows are read again, which may succeed.
            self.changes_between(known, projected).await.unwrap_or_default()
        } else {
            None
        };
        let mut cached = self.cached.lock();
        if projected <= cached.position {
            // Another read was faster. These entries could bring back old rows whose newer ones the cache has evicted.
            return;
        }
        match changes {
            Some(changes) => {
                self.past.note_changes(&changes);
                changes.iter().for_each(|change| self.rows.put_change(&self.dataset, cached.epoch, change));
            }
            None => {
                (cached.epoch, cached.applies_entries) = (self.rows.new_epoch(), false);
                cached.noted_after = projected;
            }
        }
        cached.position = projected;
    }

    /// Reads the changes of rows after a position, as [`Self::changes_of`] returns them.
    async fn changes_between(&self, after: u64, upto: u64) -> StoreResult<Option<Vec<Change>>> {
        let wanted = usize::try_from(upto - after).unwrap_or(usize::MAX);
        Ok(self.changes_of(self.store.read(&self.dataset, after, upto, wanted).await?, wanted))
    }

    /// The changes of rows after a position, if its entries are in memory.
    fn changes_in_memory(&self, after: u64, upto: u64) -> Option<Vec<Change>> {
        let wanted = usize::try_from(upto - after).ok()?;
        self.changes_of(self.store.in_memory(&self.dataset, after, upto), wanted)
    }

    /// The changes of rows that entries cause. None if entries are missing, or if this version does not know one.
    ///
    /// An entry that makes an author prolific also writes index rows of older theses, which are not among these
    /// changes. No cached partition lacks them: they are written before the row that makes the author prolific, and
    /// such an index is read only after that row.
    fn changes_of(&self, entries: Vec<(u64, Bytes)>, wanted: usize) -> Option<Vec<Change>> {
        if entries.len() < wanted {
            return None;
        }
        let mut changes = Vec::with_capacity(8 * wanted);
        for (seq, body) in entries {
            let sequenced = SequencedEntry { seq, entry: decode(seq, body).ok()? };
            entry_changes(&self.dataset, &sequenced, thesis_change, &|_: &str, _| true, &mut changes);
        }
        Some(changes)
    }
}

#[cfg(test)]
mod tests;
