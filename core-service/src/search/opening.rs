//! Opens the index, and closes it after a failure.
//!
//! An index in memory is open from its creation. The follower opens an index in a folder: the first time it reads all
//! files to verify their checksums, and the core starts beside that. An index that is damaged, of another version or of
//! another generation of the logs is deleted and built again from the logs. Other failures delete nothing.
//!
//! A failed write closes the index: the disk may be full, or the folder gone, and tantivy's writer does not survive
//! that. All datasets are incomplete from then on, so searches wait and get 503, and nothing else of the core is
//! affected. The follower opens the index again, with growing pauses. The log says once that the index failed, and once
//! that it works again.

use std::{fs, path::Path, sync::atomic::Ordering::Relaxed};

use tantivy::{Index, IndexReader, ReloadPolicy, Searcher, indexer::IndexWriterOptions};

use super::{
    Marks, SearchError, SearchIndex,
    folder::SearchFolder,
    schema::{Fields, VERSION, WORDS},
    words::WordTokenizer,
    writer::{CommitNote, Writer},
};
use crate::domain::dataset::View;

/// Memory budget for documents that are not written yet, in bytes.
const WRITER_MEMORY_BYTES: usize = 20_000_000;

impl SearchIndex {
    /// Opens the index if it is closed, for the logs of a generation. This blocks.
    pub fn reopen(&self, generation: &str) -> Result<(), SearchError> {
        let mut writer = self.writer.lock();
        if writer.is_some() {
            return Ok(());
        }
        let opened = match &self.folder {
            Some(folder) => self.open_in(folder, generation),
            None => parts(&Index::create_in_ram(Fields::new().1), generation, Marks::new()),
        };
        let (opened, reader) = opened.map_err(|error| self.close(&mut writer, error))?;
        self.committed.send_replace(opened.marks.clone());
        *self.reader.lock() = Some(reader);
        *writer = Some(opened);
        Ok(())
    }

    /// Opens the index of a folder, or replaces an index that cannot be used.
    fn open_in(&self, folder: &SearchFolder, generation: &str) -> Result<(Writer, IndexReader), SearchError> {
        let dir = folder.shard();
        fs::create_dir_all(&dir)?;
        if fs::read_dir(&dir)?.next().is_some() {
            match self.resume(&dir, generation) {
                Ok(opened) => return Ok(opened),
                Err(error) if !error.must_be_rebuilt() => return Err(error),
                // While the index fails, the log has said so.
                Err(error) if self.is_failing() => tracing::debug!(%error, "building the search index again"),
                Err(error) => tracing::warn!(%error, "building the search index again"),
            }
            fs::remove_dir_all(&dir)?;
            fs::create_dir_all(&dir)?;
        }
        self.is_verified.store(true, Relaxed);
        parts(&Index::create_in_dir(&dir, Fields::new().1)?, generation, Marks::new())
    }

    /// Opens the index in a folder, if it can be used for the logs of a generation.
    fn resume(&self, dir: &Path, generation: &str) -> Result<(Writer, IndexReader), SearchError> {
        let index = Index::open_in_dir(dir)?;
        let note: CommitNote = serde_json::from_str(&index.load_metas()?.payload.ok_or(SearchError::Version)?)?;
        if note.version != VERSION || index.schema() != Fields::new().1 {
            return Err(SearchError::Version);
        }
        if note.generation != generation {
            return Err(SearchError::Generation);
        }
        // A failed write damages no file that is committed, so the files are read only once.
        if !self.is_verified.load(Relaxed) {
            if !index.validate_checksum()?.is_empty() {
                return Err(SearchError::Damaged);
            }
            self.is_verified.store(true, Relaxed);
        }
        parts(&index, generation, note.marks)
    }

    /// Closes the index after a failure and returns the failure, which is logged unless it follows another one.
    fn close(&self, writer: &mut Option<Writer>, error: SearchError) -> SearchError {
        if !self.failing.swap(true, Relaxed) {
            tracing::warn!(%error, "the search index failed; it is tried again, and searches get 503 until it works");
        }
        // The writer holds a lock in the folder.
        *writer = None;
        self.committed.send_replace(Marks::new());
        // No search runs on a new reader before its datasets are noted as incomplete.
        let mut reader = self.reader.lock();
        *reader = None;
        let requests = self.requests.lock();
        self.incomplete.send_modify(|incomplete| {
            incomplete.extend(requests.keys().map(|name| (name.clone(), None)));
        });
        error
    }

    /// Writes to the index, and closes it after a failure.
    pub(super) fn write(&self, work: impl FnOnce(&mut Writer) -> Result<(), SearchError>) -> Result<(), SearchError> {
        let mut writer = self.writer.lock();
        let Some(open) = writer.as_mut() else { return Err(SearchError::Closed) };
        let done = work(open);
        done.map_err(|error| self.close(&mut writer, error))
    }

    /// The state of the last commit, for a view whose datasets are complete or were never requested. A request has
    /// waited until they were complete, but the index may have failed since.
    pub(super) fn searcher(&self, view: &View) -> Result<Searcher, SearchError> {
        // The lock keeps the index from being closed between the check and the read.
        let reader = self.reader.lock();
        let incomplete = self.incomplete.borrow();
        if view.datasets().iter().any(|dataset| incomplete.contains_key(&dataset.to_string())) {
            return Err(SearchError::Closed);
        }
        reader.as_ref().map(IndexReader::searcher).ok_or(SearchError::Closed)
    }

    pub fn is_open(&self) -> bool {
        self.reader.lock().is_some()
    }

    /// True from a failure until a commit succeeds.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }
}

/// The writer and the reader of an index.
fn parts(index: &Index, generation: &str, marks: Marks) -> Result<(Writer, IndexReader), SearchError> {
    index.tokenizers().register(WORDS, WordTokenizer);
    let options =
        IndexWriterOptions::builder().memory_budget_per_thread(WRITER_MEMORY_BYTES).num_merge_threads(1).build();
    let writer = index.writer_with_options(options)?;
    // A failed commit leaves files, which would take up the room of a full disk until a commit succeeds.
    drop(writer.garbage_collect_files().wait());
    let writer = Writer { writer, marks, generation: generation.to_owned() };
    let reader: IndexReader = index.reader_builder().reload_policy(ReloadPolicy::Manual).try_into()?;
    Ok((writer, reader))
}
