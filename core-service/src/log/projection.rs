//! Writes a dataset's rows from the entries of its log. This is idempotent: every row is written with its entry's
//! sequence number as version.
//!
//! The rows of a batch are prepared, then written. Several batches may be prepared before the first of them is written,
//! but all are prepared and written in the order of the log.

mod prolific;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    hash::{Hash as _, Hasher as _},
    mem::take,
};

use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use quick_cache::sync::Cache;

use crate::{
    domain::{
        entry::{Entry, Kind, SequencedEntry},
        event_id::EventIdCipher,
    },
    store::{Change, SharedBackend, StoreResult},
    tables::{
        event_positions::position_change,
        events::OpenSegment,
        log::{LogStore, rows_checkpoint_change},
        theses::{
            Bucket, ThesisStore, bucket_removal, entry_changes, lists_deleted, logged_thesis_change, thesis_change,
        },
    },
};

pub use crate::tables::log::ROWS;

/// Maximum number of buckets remembered as listed. A forgotten bucket costs another write.
const MAX_KNOWN_BUCKETS: usize = 65_536;
/// Number of buckets checked concurrently for being empty after a deletion.
const CONCURRENT_CHECKS: usize = 8;

fn bucket_key(scope: &str, bucket: i64) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    (scope, bucket).hash(&mut hasher);
    hasher.finish()
}

pub(super) fn has_deletion(entries: &[SequencedEntry]) -> bool {
    entries.iter().any(|entry| matches!(entry.entry.kind, Some(Kind::ThesisDeleted(_))))
}

pub(super) fn makes_prolific(entries: &[SequencedEntry]) -> bool {
    let made = |entry: &Entry| matches!(&entry.kind, Some(Kind::ThesisCreated(created)) if created.makes_prolific());
    entries.iter().any(|entry| made(&entry.entry))
}

/// The changes of rows that follow from entries.
#[derive(Default)]
pub struct PreparedRows {
    /// The rows that are written before all others.
    first: Vec<Change>,
    others: Vec<Change>,
}

pub struct Projector {
    backend: SharedBackend,
    log: LogStore,
    theses: ThesisStore,
    dataset: String,
    event_ids: EventIdCipher,
    known_buckets: Cache<u64, ()>,
    /// The scopes of the entries after the last full segment, as far as the rows of these entries are prepared.
    segment: Mutex<OpenSegment>,
}

impl Projector {
    pub fn new(backend: SharedBackend, theses: ThesisStore, dataset: String, event_ids: EventIdCipher) -> Self {
        let theses = theses.of_writer(&dataset);
        let log = theses.log().clone();
        let known_buckets = Cache::new(MAX_KNOWN_BUCKETS);
        Self { backend, log, theses, dataset, event_ids, known_buckets, segment: Mutex::default() }
    }

    /// Returns whether a bucket is not yet known as listed. From then on it is known.
    fn is_new_bucket(&self, scope: &str, bucket: i64) -> bool {
        let known = bucket_key(scope, bucket);
        let is_new = self.known_buckets.get(&known).is_none();
        self.known_buckets.insert(known, ());
        is_new
    }

    fn changes(&self, sequenced: &SequencedEntry, changes: &mut Vec<Change>) {
        self.forget_buckets(sequenced);
        // Where only this process writes, reading the log is cheap. So the row of a thesis has no body there, and the
        // thesis is stored once, in its entry.
        let thesis_change = if self.backend.is_exclusive() { logged_thesis_change } else { thesis_change };
        let is_new_bucket = |scope: &str, bucket: i64| self.is_new_bucket(scope, bucket);
        entry_changes(&self.dataset, sequenced, thesis_change, &is_new_bucket, changes);
        changes.extend(position_change(&self.event_ids, &self.dataset, &sequenced.entry, sequenced.seq));
    }

    /// Takes the segment of the next entry, with the entries before this one. If the projector has not seen them all,
    /// they are read from the log. The caller puts the segment back with its new entries. After an error it does not,
    /// and the log is read the next time.
    async fn take_segment(&self, next: u64) -> StoreResult<OpenSegment> {
        let mut segment = take(&mut *self.segment.lock());
        if segment.upto() + 1 != next {
            segment = OpenSegment::beginning(next);
            let missing = self.log.entries(&self.dataset, segment.upto(), next - 1).await?;
            missing.iter().for_each(|entry| segment.add(entry));
        }
        Ok(segment)
    }

    /// Collects the row changes of entries in order, and adds the entries to the open segment.
    fn rows(&self, entries: &[SequencedEntry], segment: &mut OpenSegment) -> Vec<Change> {
        let mut changes = Vec::with_capacity(entries.len() * 20);
        for entry in entries {
            self.changes(entry, &mut changes);
            segment.add(entry);
            segment.close_if_full(&self.dataset, |scope, bucket| self.is_new_bucket(scope, bucket), &mut changes);
        }
        changes
    }

    /// Prepares the rows of entries that follow the last prepared ones. If an author becomes prolific with them, the
    /// rows of all earlier entries must be written.
    pub async fn prepare(&self, entries: &[SequencedEntry]) -> StoreResult<PreparedRows> {
        let Some(entry) = entries.first() else { return Ok(PreparedRows::default()) };
        let mut segment = self.take_segment(entry.seq).await?;
        let mut first = self.changes_of_new_prolific(entries).await?;
        let mut others = self.rows(entries, &mut segment);
        if has_deletion(entries) && !self.backend.is_exclusive() {
            // A reader may see only some of the changes. A deletion adds the thesis to the lists of deleted theses
            // before it removes the thesis from other lists. So a reader that reads the lists of deleted theses last
            // misses none.
            let (deleted, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(lists_deleted);
            first.extend(deleted);
            others = rest;
        }
        *self.segment.lock() = segment;
        Ok(PreparedRows { first, others })
    }

    /// Forgets the prepared rows that are not written, and never will be.
    pub fn forget_prepared(&self) {
        *self.segment.lock() = OpenSegment::default();
        self.known_buckets.clear();
    }

    /// Forgets the buckets that a deletion may have emptied: a later thesis in one of them lists it again.
    fn forget_buckets(&self, sequenced: &SequencedEntry) {
        if let Some(Kind::ThesisDeleted(deleted)) = &sequenced.entry.kind {
            for Bucket { scope, bucket } in Bucket::of(&deleted.thesis, deleted.totals.is_prolific()) {
                self.known_buckets.remove(&bucket_key(&scope, bucket));
            }
        }
    }

    /// Skips entries whose rows another core has written.
    pub fn skip_entries(&self, entries: &[SequencedEntry]) {
        entries.iter().for_each(|entry| self.forget_buckets(entry));
        self.segment.lock().skip(entries);
        if !entries.is_empty() {
            self.theses.forget_recent();
        }
    }

    /// The rows that this projection writes, with the last day of busy tokens in memory.
    pub fn theses(&self) -> &ThesisStore {
        &self.theses
    }

    /// Finds the changes that remove empty buckets from their scopes' lists. Call it after the rows of these entries
    /// are written.
    ///
    /// A bucket is removed with the version of its last deletion here. Earlier theses are all written or deleted by
    /// then, so only a later thesis can still come into an empty bucket. Its projector forgot the bucket at that
    /// deletion and lists it again with a higher version. Whichever change comes first, the removal then does nothing.
    async fn removals(&self, entries: &[SequencedEntry]) -> StoreResult<Vec<Change>> {
        let mut last: HashMap<Bucket, i64> = HashMap::new();
        for SequencedEntry { seq, entry } in entries {
            if let Some(Kind::ThesisDeleted(deleted)) = &entry.kind {
                let version = i64::try_from(*seq).unwrap_or(i64::MAX);
                let buckets = Bucket::of(&deleted.thesis, deleted.totals.is_prolific());
                last.extend(buckets.into_iter().map(|bucket| (bucket, version)));
            }
        }
        let dataset = self.dataset.as_str();
        let removals = stream::iter(last).map(|(bucket, version)| async move {
            let is_empty = self.theses.is_empty(dataset, &bucket).await?;
            Ok(is_empty.then(|| bucket_removal(dataset, &bucket, version)))
        });
        removals
            .buffer_unordered(CONCURRENT_CHECKS)
            .try_filter_map(|removal| std::future::ready(Ok(removal)))
            .try_collect()
            .await
    }

    /// Writes the rows of entries in order, then the checkpoint. After an error they are projected again later. The rows
    /// of all earlier entries must be written.
    pub async fn project(&self, entries: &[SequencedEntry]) -> StoreResult<()> {
        let projected = async { self.write(entries, self.prepare(entries).await?, Vec::new()).await }.await;
        if projected.is_err() {
            self.forget_prepared();
        }
        projected
    }

    /// Writes the prepared rows of entries, then the checkpoint. `beside` are other checkpoints that are right once the
    /// log has the entries. The rows of all earlier entries must be written. After an error, call
    /// [`Self::forget_prepared`] before more rows are prepared, and project the entries again.
    pub async fn write(
        &self,
        entries: &[SequencedEntry],
        prepared: PreparedRows,
        beside: Vec<Change>,
    ) -> StoreResult<()> {
        let Some(last) = entries.last() else { return Ok(()) };
        let PreparedRows { first, others: mut changes } = prepared;
        if !first.is_empty() {
            self.theses.apply(first).await?;
        }
        if has_deletion(entries) {
            self.theses.apply(changes).await?;
            changes = self.removals(entries).await?;
        }
        let mut checkpoints = beside;
        // The writer has read or appended each entry after the checkpoint with which it started, so it knows every
        // erasure.
        checkpoints.push(rows_checkpoint_change(&self.dataset, last.seq, self.log.newest_erasure(&self.dataset)));
        if self.backend.is_exclusive() {
            changes.extend(checkpoints);
            return self.theses.apply(changes).await;
        }
        // The checkpoint may be written only after all rows before it.
        if !changes.is_empty() {
            self.theses.apply(changes).await?;
        }
        self.backend.apply(checkpoints).await
    }
}
