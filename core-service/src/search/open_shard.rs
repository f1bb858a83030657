//! One open shard of the index.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, indexer::IndexWriterOptions};

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
    /// In the common shard: all months.
    pub(super) months: BTreeSet<Shard>,
    /// In a month that is being rebuilt: the sequence number up to which it holds the log of `live`.
    pub(super) rebuilt_to: Option<u64>,
}

impl CommitNote {
    /// The note of a month that is not being rebuilt.
    pub(super) fn new(generation: &str) -> Self {
        let generation = generation.to_owned();
        Self { version: VERSION, generation, months: BTreeSet::new(), rebuilt_to: None }
    }
}

pub(super) struct OpenShard {
    index: Index,
    pub(super) reader: IndexReader,
    /// None until the first change, and after the writer was closed.
    writer: Option<IndexWriter>,
    /// True while changes are not committed.
    pub(super) has_changes: bool,
    pub(super) rebuilt_to: Option<u64>,
}

impl OpenShard {
    pub(super) fn new(index: Index, rebuilt_to: Option<u64>) -> Result<Self, SearchError> {
        index.tokenizers().register(WORDS, WordTokenizer);
        let reader: IndexReader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
        Ok(Self { index, reader, writer: None, has_changes: false, rebuilt_to })
    }

    pub(super) fn has_writer(&self) -> bool {
        self.writer.is_some()
    }

    /// The writer, for changes.
    pub(super) fn writer(&mut self) -> Result<&mut IndexWriter, SearchError> {
        self.has_changes = true;
        let writer = match self.writer.take() {
            Some(writer) => writer,
            None => {
                let options = IndexWriterOptions::builder().memory_budget_per_thread(WRITER_MEMORY_BYTES);
                self.index.writer_with_options(options.num_merge_threads(1).build())?
            }
        };
        Ok(self.writer.insert(writer))
    }

    pub(super) fn put(&mut self, change: Change) -> Result<(), SearchError> {
        let writer = self.writer()?;
        writer.delete_term(change.id);
        if let Some(document) = change.document {
            writer.add_document(document)?;
        }
        Ok(())
    }

    /// Commits the changes with a note, and makes searches see them.
    pub(super) fn commit(&mut self, note: &CommitNote) -> Result<(), SearchError> {
        let note = serde_json::to_string(note)?;
        let mut prepared = self.writer()?.prepare_commit()?;
        prepared.set_payload(&note);
        prepared.commit()?;
        self.reader.reload()?;
        self.has_changes = false;
        Ok(())
    }

    /// Closes the writer, which has threads and a memory budget. All changes must be committed.
    pub(super) fn close_writer(&mut self) -> Result<(), SearchError> {
        if let Some(writer) = self.writer.take() {
            // Without the wait, a month that gets few changes at a time would never be merged.
            writer.wait_merging_threads()?;
            self.reader.reload()?;
        }
        Ok(())
    }
}
