//! One open shard of the index.

use std::{mem::take, pin::Pin};

use futures::FutureExt as _;
use serde::{Deserialize, Serialize};
use tantivy::{
    Directory as _, FutureResult, Index, IndexReader, IndexWriter, ReloadPolicy, TantivyError,
    directory::META_LOCK,
    index::{IndexMeta, SegmentMeta},
    indexer::IndexWriterOptions,
    merge_policy::{LogMergePolicy, MergeCandidate, MergePolicy as _, NoMergePolicy},
};

use super::{
    SearchError,
    documents::Change,
    schema::{VERSION, WORDS},
    shard::Shard,
    words::WordTokenizer,
};

/// Memory budget of a writer for documents that are not written yet, in bytes.
const WRITER_MEMORY_BYTES: usize = 20_000_000;

/// The note is committed with the documents, so both always agree.
#[derive(Serialize, Deserialize)]
pub(super) struct CommitNote {
    pub(super) version: u32,
    /// The generation of the logs.
    pub(super) generation: String,
    /// In the common shard: all months. One that lacks entries of `live` has the sequence number up to which it holds
    /// the log.
    pub(super) months: Vec<(Shard, Option<u64>)>,
    /// In the common shard: the months that other cores have. An older version builds them again.
    #[serde(default)]
    pub(super) away: Vec<Shard>,
    /// In a month that is being rebuilt, or was copied from another core: the sequence number up to which it holds the
    /// log of `live`.
    pub(super) rebuilt_to: Option<u64>,
}

impl CommitNote {
    /// The note of a month that is not being rebuilt.
    pub(super) fn new(generation: &str) -> Self {
        let (months, away) = (Vec::new(), Vec::new());
        Self { version: VERSION, generation: generation.to_owned(), months, away, rebuilt_to: None }
    }
}

pub(super) struct OpenShard {
    shard: Shard,
    index: Index,
    pub(super) reader: IndexReader,
    /// None until the first commit of a change, and after the writer was closed.
    writer: Option<IndexWriter>,
    /// The changes of a month until the next commit, which needs the writers of the old months one after the other.
    pub(super) changes: Vec<Change>,
    /// True while the month must be committed.
    pub(super) has_changes: bool,
    /// The merges of a month that run. A month starts them itself, since its writer must not be closed before they end.
    merges: Vec<Pin<Box<FutureResult<Option<SegmentMeta>>>>>,
    pub(super) rebuilt_to: Option<u64>,
}

impl OpenShard {
    pub(super) fn new(shard: Shard, index: Index, rebuilt_to: Option<u64>) -> Result<Self, SearchError> {
        index.tokenizers().register(WORDS, WordTokenizer);
        let reader: IndexReader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        let (changes, merges) = (Vec::new(), Vec::new());
        Ok(Self { shard, index, reader, writer: None, changes, has_changes: false, merges, rebuilt_to })
    }

    /// The writer, for changes.
    pub(super) fn writer(&mut self) -> Result<&mut IndexWriter, SearchError> {
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let options = IndexWriterOptions::builder().memory_budget_per_thread(WRITER_MEMORY_BYTES);
                let writer: IndexWriter = self.index.writer_with_options(options.num_merge_threads(1).build())?;
                // A failed commit leaves files, which would take up the room of a full disk until a commit succeeds.
                drop(writer.garbage_collect_files().wait());
                if self.shard != Shard::Common {
                    writer.set_merge_policy(Box::new(NoMergePolicy));
                }
                writer
            }
        };
        Ok(self.writer.insert(writer))
    }

    pub(super) fn write(&mut self, change: Change) -> Result<(), SearchError> {
        let writer = self.writer()?;
        writer.delete_term(change.id);
        if let Some(document) = change.document {
            writer.add_document(document)?;
        }
        Ok(())
    }

    /// Commits the written changes with a note, and makes searches see them.
    pub(super) fn commit(&mut self, note: &CommitNote) -> Result<(), SearchError> {
        let note = serde_json::to_string(note)?;
        let mut prepared = self.writer()?.prepare_commit()?;
        prepared.set_payload(&note);
        prepared.commit()?;
        self.reader.reload()?;
        Ok(())
    }

    /// Commits the changes of a month, and closes the writer, which has threads, once no merge runs. Most commits change
    /// the newest month, so its writer stays open until one does not.
    pub(super) fn commit_month(&mut self, generation: &str, is_newest: bool) -> Result<(), SearchError> {
        let stays_open = is_newest && self.has_changes;
        if self.has_changes {
            take(&mut self.changes).into_iter().try_for_each(|change| self.write(change))?;
            self.commit(&CommitNote { rebuilt_to: self.rebuilt_to, ..CommitNote::new(generation) })?;
            self.has_changes = false;
            self.start_merges()?;
        }
        if !stays_open
            && self.have_merges_ended()
            && let Some(writer) = self.writer.take()
        {
            // The files of merged segments can be deleted once no reader has them.
            self.reader.reload()?;
            writer.garbage_collect_files().wait()?;
        }
        Ok(())
    }

    /// The metadata of the last commit for a copy. The note of a month gets the sequence number up to which it holds the
    /// log of `live`. The files that the metadata name are not deleted while they live.
    pub(super) fn meta_for_copy(&self, position: u64) -> Result<IndexMeta, SearchError> {
        // No merge deletes files before the metadata protect them.
        let _lock = self.index.directory().acquire_lock(&META_LOCK).map_err(TantivyError::from)?;
        let mut meta = self.index.load_metas()?;
        if self.shard != Shard::Common {
            let note = meta.payload.as_deref().ok_or(SearchError::Version)?;
            let note = CommitNote { rebuilt_to: Some(position), ..serde_json::from_str(note)? };
            meta.payload = Some(serde_json::to_string(&note)?);
        }
        Ok(meta)
    }

    /// True if a month has no changes to commit, and no merge runs.
    pub(super) fn is_idle(&mut self) -> bool {
        !self.has_changes && self.have_merges_ended()
    }

    #[cfg(test)]
    pub(super) const fn has_writer(&self) -> bool {
        self.writer.is_some()
    }

    fn have_merges_ended(&mut self) -> bool {
        // A failed merge leaves the segments as they are.
        self.merges.retain_mut(|merge| merge.now_or_never().is_none());
        self.merges.is_empty()
    }

    /// Starts to merge segments of similar sizes, unless merges run.
    fn start_merges(&mut self) -> Result<(), SearchError> {
        if self.have_merges_ended()
            && let Some(writer) = &mut self.writer
        {
            let segments = self.index.searchable_segment_metas()?;
            for MergeCandidate(segments) in LogMergePolicy::default().compute_merge_candidates(&segments) {
                self.merges.push(Box::pin(writer.merge(&segments)));
            }
        }
        Ok(())
    }
}
