//! Writes a dataset's rows from the entries of its log. This is idempotent: every row is written with its entry's
//! sequence number as version.

mod prolific;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    hash::{Hash as _, Hasher as _},
    mem::take,
};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use parking_lot::Mutex;
use quick_cache::sync::Cache;

use crate::{
    domain::{
        entry::{Kind, SequencedEntry},
        event_id::EventIdCipher,
    },
    store::{Change, SharedBackend, StoreResult},
    tables::{
        event_positions::position_change,
        events::OpenSegment,
        log::{AppendOutcome, BatchId, ImportMark, LogStore, checkpoint_change},
        theses::{Bucket, ThesisStore, bucket_removal, entry_changes, logged_thesis_change, thesis_change},
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

fn has_deletion(entries: &[SequencedEntry]) -> bool {
    entries.iter().any(|entry| matches!(entry.entry.kind, Some(Kind::ThesisDeleted(_))))
}

pub struct Projector {
    backend: SharedBackend,
    log: LogStore,
    theses: ThesisStore,
    dataset: String,
    event_ids: EventIdCipher,
    known_buckets: Cache<u64, ()>,
    /// The scopes of the entries after the last full segment, as far as all rows of these entries are written.
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
    /// they are read from the log. The caller puts the segment back once the rows of its new entries are written. After
    /// an error it does not, and the log is read the next time.
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

    /// Appends entries to the log and writes their rows: in one step where no other process can come between. `mark`
    /// identifies the import that they begin. `beside` are other checkpoints that are right once the entries are in the
    /// log. Otherwise `after` runs between the two steps, whether or not the first succeeded. After an error, entries
    /// that reached the log anyway are projected later.
    pub async fn append(
        &self,
        head: u64,
        batch: BatchId,
        entries: &[SequencedEntry],
        mark: Option<&ImportMark>,
        beside: Vec<Change>,
        after: impl AsyncFnOnce() -> StoreResult<()>,
    ) -> StoreResult<AppendOutcome> {
        let bodies: Vec<Bytes> = entries.iter().map(|of| of.entry.stored(of.seq).into()).collect();
        if !self.backend.is_exclusive() || has_deletion(entries) {
            let appended = self.log.append_with(&self.dataset, head, batch, &bodies, mark, Vec::new()).await;
            after().await?;
            let appended = appended?;
            if appended == AppendOutcome::Done {
                self.project_beside(entries, beside).await?;
            }
            return Ok(appended);
        }
        let mut segment = self.take_segment(head + 1).await?;
        let mut changes = self.changes_of_new_prolific(entries).await?;
        changes.extend(self.rows(entries, &mut segment));
        changes.push(checkpoint_change(&self.dataset, ROWS, head + entries.len() as u64));
        changes.extend(beside);
        let append = async |changes| {
            let appended = self.log.append_with(&self.dataset, head, batch, &bodies, mark, changes).await?;
            Ok((appended == AppendOutcome::Done, appended))
        };
        let appended = self.theses.apply_with(changes, append).await;
        if matches!(appended, Ok(AppendOutcome::Done)) {
            *self.segment.lock() = segment;
        } else {
            self.known_buckets.clear();
        }
        appended
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

    /// Writes the rows of entries in order, then the checkpoint. After an error they are projected again later.
    pub async fn project(&self, entries: &[SequencedEntry]) -> StoreResult<()> {
        self.project_beside(entries, Vec::new()).await
    }

    /// Projects entries like [`Self::project`], and writes other checkpoints with that of the rows.
    async fn project_beside(&self, entries: &[SequencedEntry], beside: Vec<Change>) -> StoreResult<()> {
        let Some(first) = entries.first() else { return Ok(()) };
        let mut segment = self.take_segment(first.seq).await?;
        let written = self.write(entries, &mut segment, beside).await;
        if written.is_ok() {
            *self.segment.lock() = segment;
        } else {
            self.known_buckets.clear();
        }
        written
    }

    async fn write(
        &self,
        entries: &[SequencedEntry],
        segment: &mut OpenSegment,
        mut checkpoints: Vec<Change>,
    ) -> StoreResult<()> {
        let Some(last) = entries.last() else { return Ok(()) };
        checkpoints.push(checkpoint_change(&self.dataset, ROWS, last.seq));
        let first = self.changes_of_new_prolific(entries).await?;
        if !first.is_empty() {
            self.theses.apply(first).await?;
        }
        let mut changes = self.rows(entries, segment);
        if has_deletion(entries) {
            self.theses.apply(changes).await?;
            changes = self.removals(entries).await?;
        }
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
