//! Keeps cached rows right on a cluster, where other cores write too.
//!
//! Every log has a position here: a cached row of its dataset is the row after the entries up to that position, or a
//! newer one. A request first reads how far the log is projected. If that is beyond the position, the entries between
//! are applied to the cache, and the position moves. Then the request reads rows from the cache, or from the store. So
//! it never sees a row older than the projection was when the request began.
//!
//! Why a cached row is right: a projection writes rows before it reports them as projected. So a row that is read after
//! the position was learned contains all entries up to it. Such a row is cached only if the position is still the same.
//! If it has moved, an entry that changed the row may have been applied before the row came. Caching a row and moving
//! the position exclude each other, and an older row never replaces a newer one.
//!
//! One read of the projected position serves all requests that began before it. Requests that come during a read share
//! the next one. Nothing is read here without a request.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{profile_changes, thesis_change, token_changes};
use crate::{
    domain::{
        dataset::Dataset,
        entry::{Entry, Kind, ThesisChanged, ThesisEdited},
    },
    store::{Change, StoreError, StoreResult},
    tables::{
        log::{LogStore, ROWS, decode},
        row_cache::{CachedRow, RowCache},
    },
};

/// Maximum number of entries that are applied to cached rows at once. If there are more, the rows are forgotten. It is
/// low in tests, so tests forget rows too.
const MAX_APPLIED: u64 = if cfg!(test) { 16 } else { 1_000 };

/// The logs of the datasets that requests read.
pub(super) struct FollowedLogs {
    rows: Arc<RowCache>,
    store: LogStore,
    logs: Mutex<HashMap<Dataset, Arc<FollowedLog>>>,
}

struct FollowedLog {
    dataset: Arc<str>,
    /// Cached rows are right up to here. None is cached while it is 0.
    position: Mutex<u64>,
    reads: watch::Sender<PositionReads>,
}

/// Reads of the projected position, numbered from 1. One at a time runs.
#[derive(Default)]
struct PositionReads {
    /// Number of the last read that has begun.
    begun: u64,
    /// Number of the last read that has ended.
    ended: u64,
    /// The error of that read.
    failure: Option<String>,
    is_running: bool,
}

impl PositionReads {
    /// The outcome for requests that wait for this read or a later one; none before its end.
    fn outcome(&self, wanted: u64) -> Option<StoreResult<()>> {
        let outcome = || self.failure.clone().map_or(Ok(()), |failure| Err(StoreError::Unavailable(failure)));
        (self.ended >= wanted).then(outcome)
    }
}

/// A read that runs. If its request gives up, another one may read.
struct RunningRead<'a> {
    log: &'a FollowedLog,
    number: u64,
    has_ended: bool,
    failure: Option<String>,
}

impl<'a> RunningRead<'a> {
    /// Begins a read, unless one runs or the wanted one has ended.
    fn begin(log: &'a FollowedLog, wanted: u64) -> Option<Self> {
        let mut number = None;
        log.reads.send_if_modified(|reads| {
            if !reads.is_running && reads.ended < wanted {
                reads.is_running = true;
                reads.begun += 1;
                number = Some(reads.begun);
            }
            false
        });
        number.map(|number| Self { log, number, has_ended: false, failure: None })
    }

    fn end(mut self, outcome: &StoreResult<()>) {
        self.has_ended = true;
        self.failure = outcome.as_ref().err().map(ToString::to_string);
    }
}

impl Drop for RunningRead<'_> {
    fn drop(&mut self) {
        let (number, has_ended, failure) = (self.number, self.has_ended, self.failure.take());
        self.log.reads.send_modify(|reads| {
            reads.is_running = false;
            if has_ended {
                (reads.ended, reads.failure) = (number, failure);
            }
        });
    }
}

/// A log with the position of its cached rows when a request learned it.
pub(super) struct FollowedPosition {
    log: Arc<FollowedLog>,
    position: u64,
}

impl FollowedPosition {
    pub(super) fn is_of(&self, dataset: &str) -> bool {
        *self.log.dataset == *dataset
    }
}

impl FollowedLogs {
    pub(super) fn new(rows: Arc<RowCache>, store: LogStore) -> Self {
        Self { rows, store, logs: Mutex::default() }
    }

    fn log(&self, dataset: &Dataset) -> Arc<FollowedLog> {
        let mut logs = self.logs.lock();
        let log = logs.entry(dataset.clone()).or_insert_with(|| {
            let reads = watch::Sender::new(PositionReads::default());
            Arc::new(FollowedLog { dataset: dataset.to_string().into(), position: Mutex::new(0), reads })
        });
        Arc::clone(log)
    }

    /// Makes the cached rows of a dataset as new as its projection is now.
    pub(super) async fn catch_up(&self, dataset: &Dataset) -> StoreResult<FollowedPosition> {
        let log = self.log(dataset);
        let mut reads = log.reads.subscribe();
        let wanted = reads.borrow().begun + 1;
        loop {
            let outcome = reads.borrow_and_update().outcome(wanted);
            if let Some(outcome) = outcome {
                outcome?;
                break;
            }
            if let Some(read) = RunningRead::begin(&log, wanted) {
                let outcome = self.advance(&log).await;
                read.end(&outcome);
                outcome?;
                break;
            }
            // The sender lives as long as `log`.
            let _changed = reads.changed().await;
        }
        let position = *log.position.lock();
        Ok(FollowedPosition { log, position })
    }

    /// Moves the position of a log to the end of its projection. Only one runs for each log.
    async fn advance(&self, log: &FollowedLog) -> StoreResult<()> {
        let projected = self.store.checkpoint(&log.dataset, ROWS).await?;
        let known = *log.position.lock();
        if projected <= known {
            return Ok(());
        }
        let changes = if known == 0 {
            Some(Vec::new())
        } else if projected - known <= MAX_APPLIED {
            self.changes_between(&log.dataset, known, projected).await?
        } else {
            None
        };
        let mut position = log.position.lock();
        match changes {
            Some(changes) => changes.iter().for_each(|change| self.rows.put_change(&log.dataset, change)),
            None => self.rows.forget(&log.dataset),
        }
        *position = projected;
        Ok(())
    }

    /// Reads the changes of rows after a position; none if this version does not know all of them.
    async fn changes_between(&self, dataset: &str, after: u64, upto: u64) -> StoreResult<Option<Vec<Change>>> {
        let wanted = usize::try_from(upto - after).unwrap_or(usize::MAX);
        let entries = self.store.read(dataset, after, upto, wanted).await?;
        if entries.len() < wanted {
            return Ok(None);
        }
        let mut changes = Vec::with_capacity(wanted);
        for (seq, body) in entries {
            let Ok(entry) = decode(body) else { return Ok(None) };
            row_changes(dataset, seq, &entry, &mut changes);
        }
        Ok(Some(changes))
    }

    /// Caches a row that was read after its log's position was learned.
    pub(super) fn put_read<M: CachedRow>(&self, at: &FollowedPosition, id: &str, version: i64, row: &Arc<M>) {
        let position = at.log.position.lock();
        if at.position > 0 && *position == at.position {
            self.rows.put(&at.log.dataset, id, version, row);
        }
    }
}

/// Adds the changes of rows that an entry causes, among others.
fn row_changes(dataset: &str, seq: u64, entry: &Entry, changes: &mut Vec<Change>) {
    let version = i64::try_from(seq).unwrap_or(i64::MAX);
    match &entry.kind {
        Some(Kind::ThesisCreated(created)) => {
            if created.introduces_profile {
                profile_changes(dataset, &created.profile, version, changes);
            }
            if created.introduces_token {
                token_changes(dataset, &created.token, version, changes);
            }
            changes.push(thesis_change(dataset, &created.thesis, version));
        }
        Some(
            Kind::ThesisEdited(ThesisEdited { thesis, .. })
            | Kind::Engagement(ThesisChanged { thesis })
            | Kind::ThesisAwaited(ThesisChanged { thesis }),
        ) => changes.push(thesis_change(dataset, thesis, version)),
        Some(Kind::ThesisDeleted(deleted)) => changes.push(thesis_change(dataset, &deleted.thesis, version)),
        Some(Kind::ProfileUpdated(updated)) => profile_changes(dataset, &updated.profile, version, changes),
        Some(Kind::ProfileObserved(observed)) => profile_changes(dataset, &observed.profile, version, changes),
        Some(Kind::TokenObserved(observed)) => token_changes(dataset, &observed.token, version, changes),
        Some(Kind::TokenActivity(_) | Kind::ThesisVelocity(_)) | None => {}
    }
}

#[cfg(test)]
mod tests;
