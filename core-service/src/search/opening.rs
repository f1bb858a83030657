//! Opens the index, and closes it after a failure.
//!
//! An index in memory is open from its creation. The follower opens an index in a folder: first the common shard, then
//! the months, the newest first. It reads all files once to verify their checksums, and the core runs beside that.
//! Another core searches a month that is closed (`months.rs`); when none has it, the search gets 503. A month that is
//! missing or damaged is copied from another core (`copies.rs`), or built again from the log of `live`, while the
//! others serve. One that cannot be read now stays closed, and is tried again. A common shard that is damaged, of
//! another version or of another generation of the logs is replaced by a copy too, or by an empty one. All months are
//! deleted with it, since it has their positions. Other failures delete nothing.
//!
//! A failed write closes the index: the disk may be full, or the folder gone, and tantivy's writer does not survive
//! that. All datasets are incomplete from then on, so searches wait and get 503, and nothing else of the core is
//! affected. The follower opens the index again, with growing pauses. The log says once that the index failed, and once
//! that it works again.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use tantivy::{Index, IndexReader, Searcher};

use super::{
    Marks, SearchError, SearchFilter, SearchIndex,
    folder::SearchFolder,
    marks::read_marks,
    open_shard::{CommitNote, OpenShard},
    schema::{Fields, Kind, VERSION},
    shard::Shard,
    writer::Writer,
};
use crate::{
    domain::dataset::{Dataset, View},
    tables::members::SearchPart,
};

impl SearchIndex {
    /// Opens the index if it is closed, for the logs of a generation. This blocks.
    pub fn reopen(&self, generation: &str) -> Result<(), SearchError> {
        let mut writer = self.writer.lock();
        if writer.is_some() {
            return Ok(());
        }
        let opened = match &self.folder {
            Some(folder) => self.open_in(folder, generation),
            None => OpenShard::new(Shard::Common, Index::create_in_ram(Fields::new().1), None)
                .map(|common| Writer::new(None, common, CommitNote::new(generation), Marks::new())),
        };
        let opened = opened.map_err(|error| self.close(&mut writer, error))?;
        self.committed.send_replace(opened.marks.clone());
        *self.readers.lock() = Some(opened.readers());
        *writer = Some(opened);
        Ok(())
    }

    /// Opens the common shard of a folder, or replaces an index that cannot be used.
    fn open_in(&self, folder: &Arc<SearchFolder>, generation: &str) -> Result<Writer, SearchError> {
        if folder.has_files(Shard::Common)? {
            match self.resume(folder, generation) {
                Ok(writer) => return Ok(writer),
                Err(error) if !error.must_be_rebuilt() => return Err(error),
                // While the index fails, the log has said so.
                Err(error) if self.is_failing() => tracing::debug!(%error, "building the search index again"),
                Err(error) => tracing::warn!(%error, "building the search index again"),
            }
        }
        folder.retain_months(|_| false)?;
        let common = OpenShard::new(Shard::Common, folder.create(Shard::Common)?, None)?;
        Ok(Writer::new(Some(Arc::clone(folder)), common, CommitNote::new(generation), Marks::new()))
    }

    /// Opens the common shard of a folder, if it can be used for the logs of a generation.
    fn resume(&self, folder: &Arc<SearchFolder>, generation: &str) -> Result<Writer, SearchError> {
        let (index, note) = folder.open(Shard::Common, generation)?;
        let common = OpenShard::new(Shard::Common, index, None)?;
        let marks = read_marks(&common.reader.searcher(), &self.fields)?;
        // A month that the note does not have holds only entries after the note, and one that is away was to be
        // deleted.
        folder.retain_months(|shard| {
            note.months.iter().any(|(month, _)| *month == shard) && !note.away.contains(&shard)
        })?;
        Ok(Writer::new(Some(Arc::clone(folder)), common, note, marks))
    }

    /// True if the folder has no common shard that can be used for the logs of a generation. This blocks.
    pub(super) fn lacks_common(&self, generation: &str) -> bool {
        let opened = self.folder.as_ref().map(|folder| folder.open(Shard::Common, generation));
        matches!(&opened, Some(Err(error)) if error.must_be_rebuilt())
    }

    /// Opens the newest month that is closed, unless it could not be read a short time ago. A month that cannot be used
    /// waits for a copy if `can_copy`. Returns false if there is none to open. This blocks.
    pub fn open_month(&self, now_ms: i64, can_copy: bool) -> Result<bool, SearchError> {
        self.write(|writer| {
            let opened = writer.open_month(now_ms, can_copy);
            *self.readers.lock() = Some(writer.readers());
            if writer.month_to_copy().is_some() {
                self.missing.notify_one();
            }
            Ok(opened)
        })
    }

    /// Waits until a month waits for a copy.
    pub async fn wait_for_missing_month(&self) {
        self.missing.notified().await;
    }

    /// The newest month that waits for a copy.
    pub(super) fn month_to_copy(&self) -> Result<Option<Shard>, SearchError> {
        self.write(|writer| Ok(writer.month_to_copy()))
    }

    /// Lets a month that waits for a copy be rebuilt.
    pub(super) fn give_up_copy(&self, month: Shard) -> Result<(), SearchError> {
        self.write(|writer| {
            writer.give_up_copy(month);
            Ok(())
        })?;
        self.wanted.notify_one();
        Ok(())
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
        let mut readers = self.readers.lock();
        *readers = None;
        let requests = self.requests.lock();
        self.incomplete.send_modify(|incomplete| {
            incomplete.extend(requests.keys().map(|name| (name.clone(), None)));
        });
        error
    }

    /// Writes to the index, and closes it after a failure.
    pub(super) fn write<T>(&self, work: impl FnOnce(&mut Writer) -> Result<T, SearchError>) -> Result<T, SearchError> {
        let mut writer = self.writer.lock();
        let Some(open) = writer.as_mut() else { return Err(SearchError::Closed) };
        let done = work(open);
        done.map_err(|error| self.close(&mut writer, error))
    }

    /// The state of the last commit, for a view whose datasets are complete or were never requested: for each dataset,
    /// the shards that have its rows of a kind. A request has waited until they were complete, but the index may have
    /// failed since.
    pub(super) fn searchers(
        &self,
        view: &View,
        kind: Kind,
        narrow: &SearchFilter,
    ) -> Result<Vec<Vec<Searcher>>, SearchError> {
        let (searchers, missing) = self.searchers_and_missing(view, kind, narrow)?;
        if missing.is_empty() { Ok(searchers) } else { Err(SearchError::Closed) }
    }

    /// As [`Self::searchers`], with the months of the window that cannot be searched here.
    pub(super) fn searchers_and_missing(
        &self,
        view: &View,
        kind: Kind,
        narrow: &SearchFilter,
    ) -> Result<(Vec<Vec<Searcher>>, Vec<i64>), SearchError> {
        // The lock keeps the index from being closed between the check and the read.
        let readers = self.readers.lock();
        let incomplete = self.incomplete.borrow();
        if view.datasets().iter().any(|dataset| incomplete.contains_key(&dataset.to_string())) {
            return Err(SearchError::Closed);
        }
        let readers = readers.as_ref().ok_or(SearchError::Closed)?;
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for dataset in view.datasets() {
            let mut searchers = Vec::new();
            let shards = Shard::range(dataset, kind, narrow.floor.bound_for(dataset), narrow.to);
            // A map refuses a range that ends before it starts.
            let of_range = (!shards.is_empty()).then(|| readers.range(shards));
            for (shard, reader) in of_range.into_iter().flatten() {
                match (reader, shard) {
                    (Some(reader), _) => searchers.push(reader.searcher()),
                    (None, Shard::Month(month)) => missing.push(*month),
                    (None, Shard::Common) => return Err(SearchError::Closed),
                }
            }
            found.push(searchers);
        }
        Ok((found, missing))
    }

    /// Searchers of those months of `live` that this core has. Fails if its index of `live` is not complete.
    pub(super) fn searchers_of(&self, months: &[i64]) -> Result<Vec<(i64, Searcher)>, SearchError> {
        let readers = self.readers.lock();
        if self.incomplete.borrow().contains_key(Dataset::Live.name()) {
            return Err(SearchError::Closed);
        }
        let readers = readers.as_ref().ok_or(SearchError::Closed)?;
        let reader_of = |month: &i64| readers.get(&Shard::Month(*month)).and_then(Option::as_ref);
        Ok(months.iter().filter_map(|month| Some((*month, reader_of(month)?.searcher()))).collect())
    }

    pub(super) fn common_searcher(&self) -> Result<Searcher, SearchError> {
        let readers = self.readers.lock();
        let common = readers.as_ref().and_then(|readers| readers.get(&Shard::Common)).and_then(Option::as_ref);
        common.map(IndexReader::searcher).ok_or(SearchError::Closed)
    }

    /// The part of the index that other cores may search: none before `live` is complete.
    pub fn searchable_part(&self) -> SearchPart {
        let readers = self.readers.lock();
        let is_complete = !self.incomplete.borrow().contains_key(Dataset::Live.name());
        let open = readers.as_ref().filter(|_| is_complete).into_iter().flatten();
        let months = open.filter_map(|(shard, reader)| match (shard, reader) {
            (Shard::Month(month), Some(_)) => Some(*month),
            _ => None,
        });
        SearchPart { version: VERSION, months: months.collect() }
    }

    pub fn is_open(&self) -> bool {
        self.readers.lock().is_some()
    }

    /// True from a failure until a commit succeeds.
    pub fn is_failing(&self) -> bool {
        self.failing.load(Relaxed)
    }
}
