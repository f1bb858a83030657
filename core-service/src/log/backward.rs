//! Reads the logs of a view backward, merged: by time, then dataset, then sequence number.

use std::{mem::replace, vec};

use bytes::Bytes;
use thesis_proto::{filter::CompiledFilter, v1};

use crate::{
    domain::{dataset::Dataset, entry::EntryOutline},
    error::Result,
    log::selection::{Selection, matching_event},
    shared::Shared,
    store::StoreResult,
    tables::{events::SeqRange, log::outline},
};

/// Maximum number of entries in a page.
const MAX_PAGE: usize = 500;

/// The part of a dataset's log that is read backward.
pub struct LogSlice {
    pub dataset: Dataset,
    /// Entries below this sequence number.
    pub before: u64,
    /// Entries above this sequence number.
    pub after: u64,
    /// A position that the projection of the log has reached.
    pub projected: u64,
    /// Entries not older than this, in unix milliseconds.
    pub from: i64,
}

/// An entry that is read but not decoded: perhaps no filter matches its type.
pub struct StoredEntry {
    pub seq: u64,
    pub outline: EntryOutline,
    body: Bytes,
}

struct LogCursor {
    slice: LogSlice,
    /// The next entry of this log; none if a page must be read first.
    next: Option<StoredEntry>,
    /// The entries behind it.
    buffered: vec::IntoIter<(u64, Bytes)>,
    /// Number of entries in the next page. Each page is twice as long as the one before, so that a read that takes few
    /// entries is short, and one that takes many needs few pages.
    page: usize,
    /// True when the store has no entries beyond the buffered ones.
    done: bool,
}

pub struct Backward<'a> {
    shared: &'a Shared,
    selection: Selection,
    logs: Vec<LogCursor>,
}

impl<'a> Backward<'a> {
    /// Reads the selected entries of these slices, one page of each at a time. `page` is the size of the first.
    pub fn new(shared: &'a Shared, selection: Selection, slices: Vec<LogSlice>, page: usize) -> Self {
        let cursor = |slice: LogSlice| LogCursor {
            slice,
            next: None,
            buffered: Vec::new().into_iter(),
            page,
            done: false,
        };
        Self { shared, selection, logs: slices.into_iter().map(cursor).collect() }
    }

    /// Takes the next entry, with the index of its dataset in the view.
    pub async fn next(&mut self) -> Result<Option<(usize, StoredEntry)>> {
        for log in &mut self.logs {
            if log.next.is_none() && !log.done {
                log.fill(self.shared, &self.selection).await?;
            }
        }
        let newest = self
            .logs
            .iter()
            .enumerate()
            .filter_map(|(index, log)| Some((log.next.as_ref()?.outline.created_at, &log.slice.dataset, index)))
            .max()
            .map(|(_, _, index)| index);
        let Some(index) = newest else { return Ok(None) };
        Ok(self.logs[index].take()?.map(|entry| (index, entry)))
    }

    /// For each dataset, the exclusive upper bound of the sequence numbers that are still to be read. Entries at and
    /// above it are already taken, or not wanted.
    pub fn positions(&self) -> Vec<u64> {
        self.logs.iter().map(|log| log.next.as_ref().map_or(log.slice.before, |next| next.seq + 1)).collect()
    }

    pub fn has_more(&self) -> bool {
        self.logs.iter().any(|log| !log.done || log.next.is_some())
    }

    /// Returns the event of a taken entry if a filter matches it.
    pub fn event(&self, index: usize, taken: StoredEntry, filter: &CompiledFilter) -> StoreResult<Option<v1::Event>> {
        matching_event(&self.logs[index].slice.dataset, &taken.outline, taken.body, filter)
    }
}

impl LogCursor {
    async fn fill(&mut self, shared: &Shared, selection: &Selection) -> Result<()> {
        let LogSlice { before, after, projected, .. } = self.slice;
        let name = self.slice.dataset.name();
        let wanted = usize::try_from(before.saturating_sub(after + 1)).unwrap_or(usize::MAX).min(self.page);
        let store = &shared.log;
        let (found, rows) = match selection {
            Selection::All => {
                let rows = store.read_back(name, before, wanted).await?;
                (rows.len(), rows)
            }
            Selection::Scopes(scopes) => {
                let between = SeqRange { after, before, projected };
                let seqs = shared.events.positions(name, scopes, between, true, wanted).await?;
                (seqs.len(), store.get_many(name, &seqs).await?)
            }
        };
        self.done = found < self.page;
        self.page = (2 * self.page).min(MAX_PAGE);
        self.buffered = rows.into_iter();
        self.advance()?;
        Ok(())
    }

    fn take(&mut self) -> StoreResult<Option<StoredEntry>> {
        let taken = self.advance()?;
        if let Some(taken) = &taken {
            self.slice.before = taken.seq;
        }
        Ok(taken)
    }

    /// Moves to the entry behind the next one, and returns the next one.
    fn advance(&mut self) -> StoreResult<Option<StoredEntry>> {
        let mut behind = match self.buffered.next() {
            Some((seq, body)) => Some(StoredEntry { seq, outline: outline(&body)?, body }),
            None => None,
        };
        if behind.as_ref().is_some_and(|behind| behind.outline.created_at < self.slice.from) {
            // All further ones are older still.
            (behind, self.buffered, self.done) = (None, Vec::new().into_iter(), true);
        }
        Ok(replace(&mut self.next, behind))
    }
}

#[cfg(test)]
mod tests;
