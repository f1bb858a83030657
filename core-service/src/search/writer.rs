//! Writes entries to the shards.
//!
//! A commit writes the months first and the common shard last, which has the positions of all shards. After a crash
//! between the two, a month may hold newer entries. They are applied again, which ends in the same state.
//!
//! A month that is being rebuilt gets its entries from the log's start, beside the newest entries of the other shards.
//! A month that is closed gets the entries that it lacks in the same way, after it was opened.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    mem::take,
    path::Path,
    sync::Arc,
};

use tantivy::{Index, index::IndexMeta};

use super::{
    LogMark, Marks, Readers, SearchError,
    documents::{Change, changes},
    folder::SearchFolder,
    marks::{ChangedMarks, write_marks},
    open_shard::{CommitNote, OpenShard},
    placement::Placement,
    schema::{Fields, Kind, Terms},
    shard::Shard,
};
use crate::domain::{dataset::Dataset, entry::SequencedEntry};

/// Pause before a month that cannot be read is opened again.
const RETRY_PAUSE_MS: i64 = 30_000;

/// A month on the disk that is not open.
#[derive(Default)]
struct ClosedMonth {
    /// The sequence number up to which it holds the log of `live`, if other shards hold more.
    rebuilt_to: Option<u64>,
    /// The earliest time to open it, after a failure.
    retry_at_ms: i64,
    copy: CopyState,
}

/// The copy of a month that cannot be used.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum CopyState {
    #[default]
    NotNeeded,
    /// The month is not opened before the copy ends.
    Pending,
    /// A month that cannot be used now is rebuilt.
    Ended,
}

pub(super) struct Writer {
    /// None for an index in memory.
    folder: Option<Arc<SearchFolder>>,
    generation: String,
    /// The last entries that were applied, committed or not.
    pub(super) marks: Marks,
    /// The marks that have changed since the last commit.
    changed: ChangedMarks,
    shards: BTreeMap<Shard, OpenShard>,
    closed: BTreeMap<Shard, ClosedMonth>,
    /// The months that only other cores have.
    away: BTreeSet<Shard>,
}

impl Writer {
    /// A writer with an open common shard, and the note and the marks of its last commit.
    pub(super) fn new(folder: Option<Arc<SearchFolder>>, common: OpenShard, note: CommitNote, marks: Marks) -> Self {
        let CommitNote { generation, months, away, .. } = note;
        let away: BTreeSet<Shard> = away.into_iter().collect();
        let (shards, changed) = (BTreeMap::from([(Shard::Common, common)]), ChangedMarks::new());
        let here = months.into_iter().filter(|(month, _)| !away.contains(month));
        let closed = here.map(|(month, rebuilt_to)| (month, ClosedMonth { rebuilt_to, ..ClosedMonth::default() }));
        let closed = closed.collect();
        Self { folder, generation, marks, changed, shards, closed, away }
    }

    /// The readers of all shards.
    pub(super) fn readers(&self) -> Readers {
        let reader_of = |open: &OpenShard| open.rebuilt_to.is_none().then(|| open.reader.clone());
        let open = self.shards.iter().map(|(shard, open)| (*shard, reader_of(open)));
        open.chain(self.closed.keys().chain(&self.away).map(|shard| (*shard, None))).collect()
    }

    /// Applies the entries of a dataset after its position.
    pub(super) fn apply(
        &mut self,
        terms: &Terms,
        dataset: &Dataset,
        entries: &[SequencedEntry],
    ) -> Result<(), SearchError> {
        let position = self.position(dataset);
        for SequencedEntry { entry, .. } in entries.iter().filter(|entry| entry.seq > position) {
            for change in changes(terms, dataset, entry) {
                self.apply_change(change, position)?;
            }
        }
        if let Some(SequencedEntry { seq, entry }) = entries.last().filter(|entry| entry.seq > position) {
            self.set_mark(dataset.to_string(), Some(LogMark { seq: *seq, id: entry.id.clone() }));
        }
        Ok(())
    }

    /// Applies a change after a position. A month that is closed or being rebuilt reads it again later, and one that is
    /// away comes with it.
    fn apply_change(&mut self, change: Change, position: u64) -> Result<(), SearchError> {
        if self.away.contains(&change.shard) {
            return Ok(());
        }
        if let Some(closed) = self.closed.get_mut(&change.shard) {
            closed.rebuilt_to.get_or_insert(position);
            return Ok(());
        }
        let open = match self.shards.entry(change.shard) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(vacant) => {
                let index = match &self.folder {
                    Some(folder) => folder.create(change.shard)?,
                    None => Index::create_in_ram(Fields::new().1),
                };
                vacant.insert(OpenShard::new(change.shard, index, None)?)
            }
        };
        if change.shard == Shard::Common {
            return open.write(change);
        }
        if open.rebuilt_to.is_none() {
            open.changes.push(change);
            open.has_changes = true;
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
    pub(super) fn rebuild(&mut self, terms: &Terms, entries: &[SequencedEntry]) {
        let position = self.position(&Dataset::Live);
        for (shard, open) in &mut self.shards {
            let Some(rebuilt_to) = open.rebuilt_to else { continue };
            let lacking = entries.iter().filter(|entry| (rebuilt_to + 1..=position).contains(&entry.seq));
            let changes = lacking.flat_map(|entry| changes(terms, &Dataset::Live, &entry.entry));
            open.changes.extend(changes.filter(|change| change.shard == *shard));
            let reached = entries.last().map_or(rebuilt_to, |last| last.seq.max(rebuilt_to));
            open.rebuilt_to = Some(reached).filter(|reached| *reached < position);
            open.has_changes = true;
        }
    }

    /// Opens the newest month that is closed. One that cannot be read stays closed for a while. One that cannot be used
    /// is copied, if that is possible, or else rebuilt. Returns false if there is none to open at this time.
    pub(super) fn open_month(&mut self, now_ms: i64, can_copy: bool) -> bool {
        let Some(folder) = &self.folder else { return false };
        let mut closed = self.closed.iter_mut().rev().filter(|(_, closed)| closed.copy != CopyState::Pending);
        let closed = closed.find(|(_, closed)| closed.retry_at_ms <= now_ms);
        let Some((&shard, closed)) = closed else { return false };
        let opened = match folder.open_month(shard, &self.generation, closed.rebuilt_to) {
            Err(error) if error.must_be_rebuilt() && can_copy && closed.copy == CopyState::NotNeeded => {
                tracing::info!(%error, %shard, "copying a month of the search index from another core");
                closed.copy = CopyState::Pending;
                return true;
            }
            Err(error) if error.must_be_rebuilt() => {
                tracing::warn!(%error, %shard, "building a month of the search index again");
                folder.replace_month(shard)
            }
            opened => opened,
        };
        match opened {
            Ok(open) => {
                self.closed.remove(&shard);
                self.shards.insert(shard, open);
            }
            Err(error) => {
                tracing::warn!(%error, %shard, "a month of the search index cannot be read, trying again");
                closed.retry_at_ms = now_ms + RETRY_PAUSE_MS;
            }
        }
        true
    }

    /// The newest month that waits for a copy.
    pub(super) fn month_to_copy(&self) -> Option<Shard> {
        self.closed.iter().rev().find(|(_, closed)| closed.copy == CopyState::Pending).map(|(shard, _)| *shard)
    }

    /// Puts a copy in place of a closed month. Its note says which entries it lacks.
    pub(super) fn install_month(&mut self, month: Shard, copy: &Path) -> Result<(), SearchError> {
        let folder = self.folder.as_ref().ok_or(SearchError::Closed)?;
        let closed = self.closed.get_mut(&month).ok_or(SearchError::Closed)?;
        folder.install(month, copy)?;
        *closed = ClosedMonth { copy: CopyState::Ended, ..ClosedMonth::default() };
        Ok(())
    }

    /// Lets a month that waits for a copy be rebuilt.
    pub(super) fn give_up_copy(&mut self, month: Shard) {
        if let Some(closed) = self.closed.get_mut(&month) {
            closed.copy = CopyState::Ended;
        }
    }

    /// The metadata of a whole shard for a copy. All changes must be committed.
    pub(super) fn meta_for_copy(&self, shard: Shard, generation: &str) -> Result<IndexMeta, SearchError> {
        if self.generation != generation {
            return Err(SearchError::Generation);
        }
        let open = self.shards.get(&shard).filter(|open| open.rebuilt_to.is_none()).ok_or(SearchError::Closed)?;
        open.meta_for_copy(self.position(&Dataset::Live))
    }

    /// Commits all changes. Returns the changed marks.
    pub(super) fn commit(&mut self, fields: &Fields) -> Result<ChangedMarks, SearchError> {
        let newest = self.shards.keys().next_back().copied();
        for (shard, month) in self.shards.iter_mut().filter(|(shard, _)| **shard != Shard::Common) {
            month.commit_month(&self.generation, Some(*shard) == newest)?;
        }
        let open = self.shards.iter().filter(|(shard, _)| **shard != Shard::Common);
        let open = open.map(|(shard, open)| (*shard, open.rebuilt_to));
        let closed = self.closed.iter().map(|(shard, closed)| (*shard, closed.rebuilt_to));
        let away = self.away.iter().map(|shard| (*shard, None));
        let (months, away) = (open.chain(closed).chain(away).collect(), self.away.iter().copied().collect());
        let note = CommitNote { months, away, ..CommitNote::new(&self.generation) };
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
            self.away.clear();
            if let Some(folder) = &self.folder {
                folder.retain_months(|_| false)?;
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

    /// Lets months that this core gets wait for copies, and takes out the months that it may delete. Months that change
    /// stay for now. Returns the months that were taken out, whose folders must be deleted after the next commit.
    pub(super) fn place(&mut self, placement: &Placement) -> Vec<Shard> {
        if self.folder.is_none() {
            return Vec::new();
        }
        let gained: Vec<Shard> =
            self.away.iter().copied().filter(|month| month.is_month_that(|n| placement.gains(n))).collect();
        for month in gained {
            self.away.remove(&month);
            self.closed.insert(month, ClosedMonth { copy: CopyState::Pending, ..ClosedMonth::default() });
        }
        let idle = self.shards.iter_mut().filter_map(|(month, open)| {
            let may_drop = month.is_month_that(|number| placement.may_drop(number));
            (may_drop && open.is_idle()).then_some(*month)
        });
        let waiting = self.closed.iter().filter(|(_, closed)| closed.copy == CopyState::Pending);
        let waiting = waiting.filter(|(month, _)| month.is_month_that(|number| placement.is_elsewhere(number)));
        let dropped: Vec<Shard> = idle.chain(waiting.map(|(month, _)| *month)).collect();
        for month in &dropped {
            self.shards.remove(month);
            self.closed.remove(month);
            self.away.insert(*month);
        }
        dropped
    }

    /// Deletes the folders of months that are away.
    pub(super) fn delete_months(&self, months: &[Shard]) {
        let Some(folder) = &self.folder else { return };
        for month in months {
            if let Err(error) = folder.delete(*month) {
                tracing::warn!(%error, %month, "a month of the search index was not deleted; the next start deletes it");
            }
        }
    }

    /// Number of months with an open writer.
    #[cfg(test)]
    pub(super) fn open_writers(&self) -> usize {
        self.shards.iter().filter(|(shard, open)| **shard != Shard::Common && open.has_writer()).count()
    }

    /// The common shard.
    pub(super) fn common(&mut self) -> Result<&mut OpenShard, SearchError> {
        self.shards.get_mut(&Shard::Common).ok_or(SearchError::Closed)
    }

    fn position(&self, dataset: &Dataset) -> u64 {
        self.marks.get(&dataset.to_string()).map_or(0, |mark| mark.seq)
    }
}
