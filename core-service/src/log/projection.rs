//! Writes a dataset's rows from the entries of its log. This is idempotent: every row is written with its entry's
//! sequence number as version.

use std::{
    collections::HashMap,
    hash::{Hash as _, Hasher as _},
};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use prost::Message as _;
use quick_cache::sync::Cache;

use crate::{
    domain::entry::{Kind, SequencedEntry},
    store::{Change, SharedBackend, StoreResult},
    tables::{
        derived,
        events::event_changes,
        log::{AppendOutcome, BatchId, ImportMark, LogStore, checkpoint_change},
        theses::{
            Bucket, ThesisStore, bucket_removal, creation_changes, deletion_changes, handle_release, profile_changes,
            symbol_release, thesis_change, token_changes, totals_changes,
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

fn has_deletion(entries: &[SequencedEntry]) -> bool {
    entries.iter().any(|entry| matches!(entry.entry.kind, Some(Kind::ThesisDeleted(_))))
}

pub struct Projector {
    backend: SharedBackend,
    theses: ThesisStore,
    dataset: String,
    known_buckets: Cache<u64, ()>,
}

impl Projector {
    pub fn new(backend: SharedBackend, theses: ThesisStore, dataset: String) -> Self {
        let theses = theses.of_writer(&dataset);
        Self { backend, theses, dataset, known_buckets: Cache::new(MAX_KNOWN_BUCKETS) }
    }

    fn changes(&self, sequenced: &SequencedEntry, changes: &mut Vec<Change>) {
        let dataset = self.dataset.as_str();
        let version = i64::try_from(sequenced.seq).unwrap_or(i64::MAX);
        let entry = &sequenced.entry;
        let is_new_bucket = |scope: &str, bucket: i64| {
            let known = bucket_key(scope, bucket);
            let is_new = self.known_buckets.get(&known).is_none();
            self.known_buckets.insert(known, ());
            is_new
        };
        match &entry.kind {
            Some(Kind::ThesisCreated(created)) => {
                if created.introduces_profile {
                    profile_changes(dataset, &created.profile, version, changes);
                }
                if created.introduces_token {
                    token_changes(dataset, &created.token, version, changes);
                }
                creation_changes(dataset, &created.thesis, version, is_new_bucket, changes);
                totals_changes(dataset, &created.thesis, &created.totals, version, changes);
            }
            Some(Kind::TokenActivity(activity)) => {
                changes.push(derived::derived_at_change(dataset, &activity.token.id, entry.created_at, version));
            }
            Some(Kind::ThesisEdited(changed) | Kind::Engagement(changed) | Kind::ThesisAwaited(changed)) => {
                changes.push(thesis_change(dataset, &changed.thesis, version));
            }
            Some(Kind::ThesisDeleted(deleted)) => {
                self.forget_buckets(sequenced);
                deletion_changes(dataset, &deleted.thesis, version, is_new_bucket, changes);
                totals_changes(dataset, &deleted.thesis, &deleted.totals, version, changes);
            }
            Some(Kind::ProfileUpdated(updated)) => {
                profile_changes(dataset, &updated.profile, version, changes);
                if let Some(handle) = &updated.previous_handle {
                    changes.extend(handle_release(dataset, &updated.profile, handle, version));
                }
            }
            Some(Kind::ProfileObserved(observed)) => {
                profile_changes(dataset, &observed.profile, version, changes);
            }
            Some(Kind::TokenObserved(observed)) => {
                token_changes(dataset, &observed.token, version, changes);
                if let Some(symbol) = &observed.previous_symbol {
                    changes.extend(symbol_release(dataset, &observed.token, symbol, version));
                }
            }
            Some(Kind::ThesisVelocity(_)) | None => {}
        }
        event_changes(dataset, entry, sequenced.seq, is_new_bucket, changes);
    }

    /// Collects the row changes of entries in order, and the change of the checkpoint.
    fn rows(&self, entries: &[SequencedEntry]) -> (Vec<Change>, Option<Change>) {
        let mut changes = Vec::with_capacity(entries.len() * 20);
        for entry in entries {
            self.changes(entry, &mut changes);
        }
        let checkpoint = entries.last().map(|last| checkpoint_change(&self.dataset, ROWS, last.seq));
        (changes, checkpoint)
    }

    /// Appends entries to the log and writes their rows: in one step where no other process can come between. `mark`
    /// identifies the import that they begin. Otherwise `after` runs between the two steps, whether or not the first
    /// succeeded. After an error, entries that reached the log anyway are projected later.
    pub async fn append(
        &self,
        log: &LogStore,
        head: u64,
        batch: BatchId,
        entries: &[SequencedEntry],
        mark: Option<&ImportMark>,
        after: impl AsyncFnOnce() -> StoreResult<()>,
    ) -> StoreResult<AppendOutcome> {
        let bodies: Vec<Bytes> = entries.iter().map(|sequenced| sequenced.entry.encode_to_vec().into()).collect();
        if !self.backend.is_exclusive() || has_deletion(entries) {
            let appended = log.append_with(&self.dataset, head, batch, &bodies, mark, Vec::new()).await;
            after().await?;
            let appended = appended?;
            if appended == AppendOutcome::Done {
                self.project(entries).await?;
            }
            return Ok(appended);
        }
        let (mut changes, checkpoint) = self.rows(entries);
        changes.extend(checkpoint);
        let append = async |changes| {
            let appended = log.append_with(&self.dataset, head, batch, &bodies, mark, changes).await?;
            Ok((appended == AppendOutcome::Done, appended))
        };
        let appended = self.theses.apply_with(changes, append).await;
        if !matches!(appended, Ok(AppendOutcome::Done)) {
            self.known_buckets.clear();
        }
        appended
    }

    /// Forgets the buckets that a deletion may have emptied: a later thesis in one of them lists it again.
    fn forget_buckets(&self, sequenced: &SequencedEntry) {
        if let Some(Kind::ThesisDeleted(deleted)) = &sequenced.entry.kind {
            for Bucket { scope, bucket } in Bucket::of(&deleted.thesis) {
                self.known_buckets.remove(&bucket_key(&scope, bucket));
            }
        }
    }

    /// Skips entries whose rows another core has written.
    pub fn skip_entries(&self, entries: &[SequencedEntry]) {
        entries.iter().for_each(|entry| self.forget_buckets(entry));
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
                last.extend(Bucket::of(&deleted.thesis).map(|bucket| (bucket, version)));
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
        let (changes, Some(checkpoint)) = self.rows(entries) else { return Ok(()) };
        let written = self.write(entries, changes, checkpoint).await;
        if written.is_err() {
            self.known_buckets.clear();
        }
        written
    }

    async fn write(&self, entries: &[SequencedEntry], mut changes: Vec<Change>, checkpoint: Change) -> StoreResult<()> {
        if has_deletion(entries) {
            self.theses.apply(changes).await?;
            changes = self.removals(entries).await?;
        }
        if self.backend.is_exclusive() {
            changes.push(checkpoint);
            return self.theses.apply(changes).await;
        }
        // The checkpoint may be written only after all rows before it.
        if !changes.is_empty() {
            self.theses.apply(changes).await?;
        }
        self.backend.apply(vec![checkpoint]).await
    }
}

#[cfg(test)]
mod tests;
