//! Logs with gap-free sequence numbers; one writer wins each number.
//!
//! An append is one conditional batch in one partition: the head moves only from the expected value, together with the
//! entries. A bucket's head row has sequence number -1; a new bucket opens if it has no head row.

mod checkpoints;
mod prefix;
mod recent_entries;
mod replace;
mod scattered;
mod times;

use std::{ops::Bound, sync::Arc};

use bytes::{Bytes, BytesMut};

use self::{
    prefix::{OTHER_PREFIX, first_prefix},
    recent_entries::RecentEntries,
    scattered::ListedEntries,
    times::EntryTimes,
};
use crate::{
    domain::entry::{Entry, EntryOutline, SequencedEntry},
    key,
    store::{
        ConditionalWrite, Consistency, Expect, Row, Scan, SharedBackend, StoreError, StoreResult, Transaction, schema,
    },
};

pub(crate) use self::prefix::payload;
pub use self::{
    checkpoints::{checkpoint_change, rows_checkpoint_change},
    prefix::BatchId,
};

/// Name of the projection of a dataset's log into rows.
pub const ROWS: &str = "rows";
/// Sequence numbers in one bucket.
const BUCKET: u64 = 10_000;
/// Sequence number of a bucket's head row.
const HEAD_ROW: i64 = -1;
/// Sequence number of the row that describes an import, in the first bucket.
const IMPORT_ROW: i64 = -2;
/// Maximum number of retries of an append in doubt.
const DOUBT_RETRIES: u32 = 5;

/// Outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// The log holds the entries after the expected head.
    Done,
    /// Nothing is written, since the head was not the expected one.
    Lost,
}

/// Marks a log that began as a copy of another one. The mark is written with the copy's first entries, in one step, and
/// never changes. So a reader that knows an entry of the log can read the mark too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImportMark {
    /// Number of entries of the copy.
    pub entries: u64,
    /// The SHA-256 of the imported file.
    pub sha256: [u8; 32],
}

/// Reads and appends to logs, each named by its dataset (or `control`). Clones share the newest entries in memory.
#[derive(Clone)]
pub struct LogStore {
    backend: SharedBackend,
    recent: Arc<RecentEntries>,
    times: Arc<EntryTimes>,
    listed: Arc<ListedEntries>,
}

/// Number of entries that the bucket after this head can still take. A batch never spans two buckets.
pub fn room(head: u64) -> usize {
    usize::try_from(BUCKET - head % BUCKET).unwrap_or(usize::MAX)
}

fn bucket_of(seq: u64) -> u64 {
    seq.saturating_sub(1) / BUCKET
}

fn int(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

fn seq_of(row: &Row) -> u64 {
    row.clustering.first().and_then(|value| u64::try_from(value.int()).ok()).unwrap_or_default()
}

/// Reads an entry's stored form at its place. One of a kind that only a newer version knows is an error.
pub fn decode(seq: u64, body: Bytes) -> StoreResult<Entry> {
    let entry = Entry::from_stored(seq, body).map_err(|error| StoreError::Damaged(format!("log entry: {error}")))?;
    if !entry.is_known() {
        return Err(StoreError::Unknown(format!("the kind of log entry {}", entry.id)));
    }
    Ok(entry)
}

/// Reads the outline of an entry's stored form.
pub fn outline(body: &[u8]) -> StoreResult<EntryOutline> {
    EntryOutline::read(body).map_err(|error| StoreError::Damaged(format!("log entry: {error}")))
}

impl LogStore {
    /// Logs of this backend.
    pub fn new(backend: SharedBackend) -> Self {
        Self { backend, recent: Arc::default(), times: Arc::default(), listed: Arc::default() }
    }

    pub(crate) fn backend(&self) -> &SharedBackend {
        &self.backend
    }

    /// Returns whether this process has surely appended all entries after `after` up to `upto`.
    pub fn has_appended(&self, log: &str, after: u64, upto: u64) -> bool {
        self.recent.has_appended(log, after, upto)
    }

    /// Begins the fan-out of the entries after `after` up to `upto`. Returns whether none of these entries can have a
    /// delivery that this process began before.
    pub fn begin_fan_out(&self, log: &str, after: u64, upto: u64) -> bool {
        self.recent.begin_fan_out(log, after, upto)
    }

    async fn head_row(&self, log: &str, bucket: u64, consistency: Consistency) -> StoreResult<Option<Row>> {
        self.backend.get(&schema::EVENT_LOG, &key![log, int(bucket), HEAD_ROW], consistency).await
    }

    /// Reads the newest sequence number; 0 when the log is empty. `known` is one that the log is known to have reached,
    /// such as a checkpoint. Each bucket after it costs a read, so from 0 the reads grow with the log.
    pub async fn head(&self, log: &str, known: u64, consistency: Consistency) -> StoreResult<u64> {
        let mut bucket = bucket_of(known);
        loop {
            let Some(row) = self.head_row(log, bucket, consistency).await? else {
                return Ok(bucket * BUCKET);
            };
            let head = u64::try_from(row.version).unwrap_or_default();
            if head < (bucket + 1) * BUCKET {
                return Ok(head);
            }
            bucket += 1;
        }
    }

    async fn slice(
        &self,
        log: &str,
        from: u64,
        to: u64,
        reverse: bool,
        limit: usize,
        consistency: Consistency,
    ) -> StoreResult<Vec<Row>> {
        let scan = Scan {
            table: &schema::EVENT_LOG,
            partition: key![log, int(bucket_of(from))],
            from: Bound::Included(key![int(from)]),
            to: Bound::Included(key![int(to)]),
            reverse,
            limit,
            consistency,
        };
        self.backend.scan(&scan).await
    }

    /// Reads entries after `after`, oldest first, up to `upto` and `limit`. Stops before a gap, which can only be an
    /// append that is not finished.
    pub async fn read(&self, log: &str, after: u64, upto: u64, limit: usize) -> StoreResult<Vec<(u64, Bytes)>> {
        let mut entries = self.recent.read(log, after, upto, limit);
        let in_memory = entries.len();
        while entries.len() < limit {
            let from = after + entries.len() as u64 + 1;
            let to = upto.min((bucket_of(from) + 1) * BUCKET);
            if from > to {
                break;
            }
            let wanted = (limit - entries.len()).min(usize::try_from(to - from + 1).unwrap_or(usize::MAX));
            let mut rows = self.slice(log, from, to, false, wanted, Consistency::Quorum).await?;
            let whole = |rows: &[Row]| rows.iter().zip(from..).all(|(row, seq)| seq_of(row) == seq);
            if rows.len() < wanted || !whole(&rows) {
                rows = self.slice(log, from, to, false, wanted, Consistency::Serial).await?;
            }
            let before = entries.len();
            for (row, seq) in rows.into_iter().zip(from..) {
                if seq_of(&row) != seq {
                    break;
                }
                entries.push((seq, payload(row)?));
            }
            if entries.len() - before < wanted {
                break;
            }
        }
        self.recent.add_read(log, after + in_memory as u64, &entries[in_memory..]);
        Ok(entries)
    }

    /// Reads every entry after `after` up to `upto`, which the log is known to have reached.
    pub async fn entries(&self, log: &str, after: u64, upto: u64) -> StoreResult<Vec<SequencedEntry>> {
        let rows = self.read_all(log, after, upto).await?;
        rows.into_iter().map(|(seq, body)| Ok(SequencedEntry { seq, entry: decode(seq, body)? })).collect()
    }

    /// Reads entries like [`Self::entries`], without those of a kind that only a newer version knows.
    pub async fn known_entries(&self, log: &str, after: u64, upto: u64) -> StoreResult<Vec<SequencedEntry>> {
        let mut entries = Vec::new();
        for (seq, body) in self.read_all(log, after, upto).await? {
            match decode(seq, body) {
                Ok(entry) => entries.push(SequencedEntry { seq, entry }),
                Err(StoreError::Unknown(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    async fn read_all(&self, log: &str, after: u64, upto: u64) -> StoreResult<Vec<(u64, Bytes)>> {
        let wanted = usize::try_from(upto.saturating_sub(after)).unwrap_or(usize::MAX);
        let rows = self.read(log, after, upto, wanted).await?;
        if rows.len() < wanted {
            return Err(StoreError::Unavailable(format!("log {log} could not be read up to {upto}")));
        }
        Ok(rows)
    }

    /// Reads entries before `before`, newest first.
    pub async fn read_back(&self, log: &str, before: u64, limit: usize) -> StoreResult<Vec<(u64, Bytes)>> {
        let mut entries = Vec::new();
        let mut to = before.saturating_sub(1);
        while to > 0 && entries.len() < limit {
            let from = bucket_of(to) * BUCKET + 1;
            let rows = self.slice(log, from, to, true, limit - entries.len(), Consistency::Quorum).await?;
            for row in rows {
                entries.push((seq_of(&row), payload(row)?));
            }
            to = from - 1;
        }
        Ok(entries)
    }

    /// Reads one entry.
    pub async fn get(&self, log: &str, seq: u64) -> StoreResult<Option<Bytes>> {
        if let Some(entry) = self.recent.get(log, seq) {
            return Ok(Some(entry));
        }
        self.get_stored(log, seq).await
    }

    /// The entries after `after` up to `upto`, oldest first, as far as they are in memory.
    pub(super) fn in_memory(&self, log: &str, after: u64, upto: u64) -> Vec<(u64, Bytes)> {
        self.recent.read(log, after, upto, usize::MAX)
    }

    /// Reads entries by log and sequence number, in the same order. A missing one is an error.
    pub async fn entries_at(&self, places: &[(&str, u64)]) -> StoreResult<Vec<Entry>> {
        if places.is_empty() {
            return Ok(Vec::new());
        }
        let keys: Vec<_> = places.iter().map(|(log, seq)| key![*log, int(bucket_of(*seq)), int(*seq)]).collect();
        let rows = self.backend.get_many(&schema::EVENT_LOG, &keys).await?;
        let entries = places.iter().zip(rows).map(|((log, seq), row)| {
            let row = row.ok_or_else(|| StoreError::Damaged(format!("log {log} has no entry {seq}")))?;
            decode(*seq, payload(row)?)
        });
        entries.collect()
    }

    /// Appends entries after `head`, at most [`room`] of them, if that is still the head. An append in doubt is
    /// retried. If the retry loses to the first try of the same append, the append is done. If it stays in doubt, that
    /// is an error.
    pub async fn append(&self, log: &str, head: u64, batch: BatchId, entries: &[Bytes]) -> StoreResult<AppendOutcome> {
        self.append_marked(log, head, batch, entries, None).await
    }

    /// Like [`LogStore::append`]; for the first entries of an import, `mark` describes the import.
    pub async fn append_marked(
        &self,
        log: &str,
        head: u64,
        batch: BatchId,
        entries: &[Bytes],
        mark: Option<&ImportMark>,
    ) -> StoreResult<AppendOutcome> {
        let bucket = bucket_of(head + 1);
        let opens = head == bucket * BUCKET;
        if opens && bucket > 0 {
            let previous = self.head_row(log, bucket - 1, Consistency::Serial).await?;
            if previous.is_none_or(|row| row.version != int(head)) {
                return Ok(AppendOutcome::Lost);
            }
        }
        let mut writes = writes(head, opens, batch, entries);
        writes.extend(mark.filter(|_| head == 0).map(mark_write));
        let transaction =
            Transaction { table: &schema::EVENT_LOG, partition: key![log, int(bucket)], writes, ttl: None };
        let mut doubts = 0;
        loop {
            // A serial read slows down running appends, and only doubt needs it.
            let consistency = if doubts > 0 { Consistency::Serial } else { Consistency::Quorum };
            let tried = async {
                if !self.backend.transact(transaction.clone()).await? {
                    let first = key![log, int(bucket), int(head + 1)];
                    let row = self.backend.get(&schema::EVENT_LOG, &first, consistency).await?;
                    if row.is_none_or(|row| !row.body.starts_with(&first_prefix(batch))) {
                        return Ok(AppendOutcome::Lost);
                    }
                }
                self.recent.add_appended(log, head, entries);
                Ok::<_, StoreError>(AppendOutcome::Done)
            };
            match tried.await {
                Err(StoreError::InDoubt(why)) if doubts < DOUBT_RETRIES => {
                    doubts += 1;
                    tracing::debug!(log, head, doubts, why, "append in doubt, repeating it");
                    tokio::time::sleep(std::time::Duration::from_millis(20 << doubts)).await;
                }
                Err(error) if doubts == 0 => return Err(error),
                // An earlier try may have appended the entries.
                Err(
                    StoreError::InDoubt(why)
                    | StoreError::Unavailable(why)
                    | StoreError::Damaged(why)
                    | StoreError::Unknown(why),
                ) => return Err(StoreError::InDoubt(why)),
                Ok(outcome) => return Ok(outcome),
            }
        }
    }

    /// Reads the import that a log began with, if any. The read is serial, since a quorum could miss an append that
    /// only some replicas have. So the result is final for a caller that knows an entry of the log.
    pub async fn import(&self, log: &str) -> StoreResult<Option<ImportMark>> {
        let row = self.backend.get(&schema::EVENT_LOG, &key![log, 0, IMPORT_ROW], Consistency::Serial).await?;
        let Some(row) = row else { return Ok(None) };
        let mark = u64::try_from(row.version).ok().zip(row.body.as_ref().try_into().ok());
        let (entries, sha256) = mark.ok_or_else(|| StoreError::Damaged(format!("the import mark of log {log}")))?;
        Ok(Some(ImportMark { entries, sha256 }))
    }
}

/// The writes of one append: the head from its expected value, and the entries. `opens` is true for a new bucket.
fn writes(head: u64, opens: bool, batch: BatchId, entries: &[Bytes]) -> Vec<ConditionalWrite> {
    let head_row = ConditionalWrite {
        clustering: key![HEAD_ROW],
        expect: if opens { Expect::Absent } else { Expect::Version(int(head)) },
        version: int(head + entries.len() as u64),
        body: Some(Bytes::copy_from_slice(&batch)),
    };
    let first = first_prefix(batch);
    let prefixes = std::iter::once(&first[..]).chain(std::iter::repeat(&OTHER_PREFIX[..]));
    let rows = entries.iter().zip(prefixes).zip(head + 1..).map(|((entry, prefix), seq)| {
        let mut body = BytesMut::with_capacity(prefix.len() + entry.len());
        body.extend_from_slice(prefix);
        body.extend_from_slice(entry);
        let (clustering, version) = (key![int(seq)], int(seq));
        ConditionalWrite { clustering, expect: Expect::Any, version, body: Some(body.freeze()) }
    });
    std::iter::once(head_row).chain(rows).collect()
}

/// The write of the row that describes an import. The condition on the head guards it.
fn mark_write(mark: &ImportMark) -> ConditionalWrite {
    ConditionalWrite {
        clustering: key![IMPORT_ROW],
        expect: Expect::Any,
        version: int(mark.entries),
        body: Some(Bytes::copy_from_slice(&mark.sha256)),
    }
}

#[cfg(test)]
mod tests;
