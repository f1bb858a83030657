//! Writes entries to the shards.
//!
//! A commit writes the months first and the common shard last, which has the positions of all shards. After a crash
//! between the two, a month may hold newer entries. They are applied again, which ends in the same state.
//!
//! A month that is being rebuilt gets its entries from the log's start, beside the newest entries of the other shards.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem::take,
    sync::Arc,
};

use tantivy::Index;

use super::{
    LogMark, Marks, Readers, SearchError,
    documents::{Change, changes},
    folder::SearchFolder,
    marks::{ChangedMarks, write_marks},
    open_shard::{CommitNote, OpenShard},
    schema::{Fields, Kind, Terms},
    shard::Shard,
};
use crate::domain::{dataset::Dataset, entry::SequencedEntry};

/// Maximum number of months with an open writer: the present one, the one before it at a turn of the month, and one for
/// changes of older theses.
const MAX_MONTH_WRITERS: usize = 3;

pub(super) struct Writer {
    /// None for an index in memory.
    folder: Option<Arc<SearchFolder>>,
    generation: String,
    /// The last entries that were applied, committed or not.
    pub(super) marks: Marks,
    /// The marks that have changed since the last commit.
    changed: ChangedMarks,
    shards: BTreeMap<Shard, OpenShard>,
    /// The months on the disk that are not open yet.
    closed: BTreeSet<Shard>,
}

impl Writer {
    /// A writer with an open common shard, and the note and the marks of its last commit.
    pub(super) fn new(folder: Option<Arc<SearchFolder>>, common: OpenShard, note: CommitNote, marks: Marks) -> Self {
        let CommitNote { generation, months, .. } = note;
        let (shards, changed) = (BTreeMap::from([(Shard::Common, common)]), ChangedMarks::new());
        Self { folder, generation, marks, changed, shards, closed: months }
    }

    /// The readers of all shards.
    pub(super) fn readers(&self) -> Readers {
        let reader_of = |open: &OpenShard| open.rebuilt_to.is_none().then(|| open.reader.clone());
        let open = self.shards.iter().map(|(shard, open)| (*shard, reader_of(open)));
        open.chain(self.closed.iter().map(|shard| (*shard, None))).collect()
    }

    /// Applies the entries of a dataset after its position.
    pub(super) fn apply(
        &mut self,
        terms: &Terms,
        dataset: &Dataset,
        entries: &[SequencedEntry],
    ) -> Result<(), SearchError> {
        let position = self.position(dataset);
        // Each month is written at once, so that few writers are open.
        let mut by_shard: BTreeMap<Shard, Vec<Change>> = BTreeMap::new();
        for SequencedEntry { entry, .. } in entries.iter().filter(|entry| entry.seq > position) {
            for change in changes(terms, dataset, entry) {
                by_shard.entry(change.shard).or_default().push(change);
            }
        }
        for (shard, changes) in by_shard {
            // The rebuild of a month reads these entries too.
            if self.open(shard)?.rebuilt_to.is_none() {
                self.put(shard, changes)?;
            }
        }
        if let Some(SequencedEntry { seq, entry }) = entries.last().filter(|entry| entry.seq > position) {
            self.set_mark(dataset.to_string(), Some(LogMark { seq: *seq, id: entry.id.clone() }));
        }
        Ok(())
    }

    /// The part of the log of `live` that rebuilt months still lack: after the first number, up to the second.
    pub(super) fn rebuild_range(&self) -> Option<(u64, u64)> {
        let after = self.shards.values().filter_map(|open| open.rebuilt_to).min()?;
        Some((after, self.position(&Dataset::Live)))
    }

    /// Applies the next entries of `live` to the months that are being rebuilt. A month is complete once it holds all
    /// entries that the other shards hold.
    pub(super) fn rebuild(&mut self, terms: &Terms, entries: &[SequencedEntry]) -> Result<(), SearchError> {
        let position = self.position(&Dataset::Live);
        let rebuilding = self.shards.iter().filter_map(|(shard, open)| Some((*shard, open.rebuilt_to?)));
        for (shard, rebuilt_to) in rebuilding.collect::<Vec<_>>() {
            let lacking = entries.iter().filter(|entry| (rebuilt_to + 1..=position).contains(&entry.seq));
            let changes = lacking.flat_map(|entry| changes(terms, &Dataset::Live, &entry.entry));
            self.put(shard, changes.filter(|change| change.shard == shard).collect())?;
            let reached = entries.last().map_or(rebuilt_to, |last| last.seq.max(rebuilt_to));
            let open = self.open(shard)?;
            open.rebuilt_to = Some(reached).filter(|reached| *reached < position);
            open.has_changes = true;
        }
        Ok(())
    }

    /// Opens the newest month that is closed. Returns false if there is none.
    pub(super) fn open_month(&mut self) -> Result<bool, SearchError> {
        match self.closed.last().copied() {
            Some(month) => self.open(month).map(|_| true),
            None => Ok(false),
        }
    }

    /// Commits all changes. Returns the changed marks.
    pub(super) fn commit(&mut self, fields: &Fields) -> Result<ChangedMarks, SearchError> {
        for (_, open) in self.shards.iter_mut().filter(|(shard, _)| **shard != Shard::Common) {
            let had_writer = open.has_writer();
            if open.has_changes {
                open.commit(&CommitNote { rebuilt_to: open.rebuilt_to, ..CommitNote::new(&self.generation) })?;
            } else if had_writer {
                // Merges have replaced segments, whose space is free once no reader has them.
                open.reader.reload()?;
            }
            if !had_writer {
                open.close_writer()?;
            }
        }
        let months = self.shards.keys().filter(|shard| **shard != Shard::Common).chain(&self.closed).copied().collect();
        let note = CommitNote { months, ..CommitNote::new(&self.generation) };
        let common = self.shards.get_mut(&Shard::Common).ok_or(SearchError::Closed)?;
        write_marks(common.writer()?, fields, &self.changed)?;
        common.commit(&note)?;
        Ok(take(&mut self.changed))
    }

    /// Removes a dataset. Its position is 0 after the next commit.
    pub(super) fn forget(&mut self, terms: &Terms, dataset: &Dataset) -> Result<(), SearchError> {
        let common = self.common()?.writer()?;
        for kind in Kind::ALL {
            common.delete_term(terms.term(terms.fields.kind, kind.prefix()));
        }
        if *dataset == Dataset::Live {
            self.shards.retain(|shard, _| *shard == Shard::Common);
            self.closed.clear();
            if let Some(folder) = &self.folder {
                folder.retain_months(&self.closed)?;
            }
        }
        self.set_mark(dataset.to_string(), None);
        Ok(())
    }

    /// Sets the mark of a dataset; none if the index holds nothing of it any more.
    fn set_mark(&mut self, name: String, mark: Option<LogMark>) {
        match &mark {
            Some(mark) => drop(self.marks.insert(name.clone(), mark.clone())),
            None => drop(self.marks.remove(&name)),
        }
        self.changed.insert(name, mark);
    }

    /// The common shard.
    pub(super) fn common(&mut self) -> Result<&mut OpenShard, SearchError> {
        self.shards.get_mut(&Shard::Common).ok_or(SearchError::Closed)
    }

    fn position(&self, dataset: &Dataset) -> u64 {
        self.marks.get(&dataset.to_string()).map_or(0, |mark| mark.seq)
    }

    fn put(&mut self, shard: Shard, changes: Vec<Change>) -> Result<(), SearchError> {
        self.limit_writers(shard)?;
        let open = self.open(shard)?;
        changes.into_iter().try_for_each(|change| open.put(change))
    }

    /// Closes the writer of the oldest month before a shard gets one too many.
    fn limit_writers(&mut self, wanted: Shard) -> Result<(), SearchError> {
        let is_other = |shard: Shard| shard != Shard::Common && shard != wanted;
        let with_writer = self.shards.iter_mut().filter(|(shard, open)| is_other(**shard) && open.has_writer());
        let mut with_writer: Vec<&mut OpenShard> = with_writer.map(|(_, open)| open).collect();
        if with_writer.len() >= MAX_MONTH_WRITERS {
            let oldest = &mut with_writer[0];
            if oldest.has_changes {
                let rebuilt_to = oldest.rebuilt_to;
                oldest.commit(&CommitNote { rebuilt_to, ..CommitNote::new(&self.generation) })?;
            }
            oldest.close_writer()?;
        }
        Ok(())
    }

    /// Opens a shard if it is closed, or creates it. A month that cannot be used is replaced by an empty one, which is
    /// rebuilt.
    fn open(&mut self, shard: Shard) -> Result<&mut OpenShard, SearchError> {
        if !self.shards.contains_key(&shard) {
            let opened = match &self.folder {
                None => OpenShard::new(Index::create_in_ram(Fields::new().1), None)?,
                Some(folder) if self.closed.contains(&shard) => match folder.open(shard, &self.generation) {
                    Ok((index, note)) => OpenShard::new(index, note.rebuilt_to)?,
                    Err(error) if error.must_be_rebuilt() => {
                        tracing::warn!(%error, %shard, "building a month of the search index again");
                        OpenShard::new(folder.create(shard)?, Some(0))?
                    }
                    Err(error) => return Err(error),
                },
                Some(folder) => OpenShard::new(folder.create(shard)?, None)?,
            };
            self.closed.remove(&shard);
            self.shards.insert(shard, opened);
        }
        self.shards.get_mut(&shard).ok_or(SearchError::Closed)
    }
}
