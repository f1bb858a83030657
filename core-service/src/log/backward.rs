//! Reads the logs of a view backward, merged: by time, then dataset, then sequence number.

use std::{mem::replace, vec};

use bytes::Bytes;
use thesis_proto::{filter::CompiledFilter, json::RenderedRow, v1};

use crate::{
    domain::{dataset::Dataset, entry::EntryOutline},
    error::Result,
    log::selection::{Selection, matching_event},
    shared::Shared,
    store::StoreResult,
    tables::{
        events::SeqRange,
        log::outline,
        rendered::{RenderedEvent, RenderedLists},
    },
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

/// An entry that is read.
pub struct ReadEntry {
    pub seq: u64,
    pub created_at: i64,
    content: Content,
}

enum Content {
    /// Its outline and stored form. It is not decoded: perhaps no filter matches its type.
    Stored(EntryOutline, Bytes),
    /// The JSON of its event, if it is one.
    Rendered(Option<RenderedRow>),
}

impl ReadEntry {
    fn stored(seq: u64, body: Bytes) -> StoreResult<Self> {
        let outline = outline(&body)?;
        Ok(Self { seq, created_at: outline.created_at, content: Content::Stored(outline, body) })
    }

    fn rendered(seq: u64, event: RenderedEvent) -> Self {
        Self { seq, created_at: event.created_at, content: Content::Rendered(event.json) }
    }
}

struct LogCursor {
    slice: LogSlice,
    /// The next entry of this log; none if a page must be read first.
    next: Option<ReadEntry>,
    /// The entries behind it.
    buffered: vec::IntoIter<ReadEntry>,
    /// Number of entries in the next page. Each page is twice as long as the one before, so that a read that takes few
    /// entries is short, and one that takes many needs few pages.
    page: usize,
    /// True when the store has no entries beyond the buffered ones.
    done: bool,
    /// The newest erasure that was known before the buffered entries were read.
    erasure: u64,
}

pub struct Backward<'a> {
    shared: &'a Shared,
    selection: Selection,
    renders: bool,
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
            erasure: 0,
        };
        Self { shared, selection, renders: false, logs: slices.into_iter().map(cursor).collect() }
    }

    /// Reads the JSON of events in place of the entries. Every entry that is read is rendered, so use it if the reader
    /// takes nearly all. The one behind a page is needed too: [`RenderedLists::known_events`] begins with the oldest.
    pub fn rendering(self) -> Self {
        Self { renders: true, ..self }
    }

    /// Takes the next entry, with the index of its dataset in the view.
    pub async fn next(&mut self) -> Result<Option<(usize, ReadEntry)>> {
        for log in &mut self.logs {
            if log.next.is_none() && !log.done {
                log.fill(self.shared, &self.selection, self.renders).await?;
            }
        }
        let newest = self
            .logs
            .iter()
            .enumerate()
            .filter_map(|(index, log)| Some((log.next.as_ref()?.created_at, &log.slice.dataset, index)))
            .max()
            .map(|(_, _, index)| index);
        let Some(index) = newest else { return Ok(None) };
        Ok(self.logs[index].take().map(|entry| (index, entry)))
    }

    /// For each dataset, the exclusive upper bound of the sequence numbers that are still to be read. Entries at and
    /// above it are already taken, or not wanted.
    pub fn positions(&self) -> Vec<u64> {
        self.logs.iter().map(|log| log.next.as_ref().map_or(log.slice.before, |next| next.seq + 1)).collect()
    }

    pub fn has_more(&self) -> bool {
        self.logs.iter().any(|log| !log.done || log.next.is_some())
    }

    /// Returns the event of a taken entry if a filter matches it; none where entries are rendered.
    pub fn event(&self, index: usize, taken: ReadEntry, filter: &CompiledFilter) -> StoreResult<Option<v1::Event>> {
        match taken.content {
            Content::Stored(outline, body) => {
                matching_event(&self.logs[index].slice.dataset, taken.seq, &outline, body, filter)
            }
            Content::Rendered(_) => Ok(None),
        }
    }

    /// Returns the JSON of a taken entry's event; none for an entry that is no event.
    pub fn rendered(&self, index: usize, taken: ReadEntry) -> StoreResult<Option<RenderedRow>> {
        match taken.content {
            Content::Stored(_, body) => {
                let LogCursor { slice, erasure, .. } = &self.logs[index];
                Ok(self.shared.rendered.event(&slice.dataset, taken.seq, &body, *erasure)?.json)
            }
            Content::Rendered(json) => Ok(json),
        }
    }
}

impl LogCursor {
    async fn fill(&mut self, shared: &Shared, selection: &Selection, renders: bool) -> Result<()> {
        let LogSlice { before, after, projected, .. } = self.slice;
        let (dataset, store, lists) = (&self.slice.dataset, &shared.log, &shared.rendered);
        let name = dataset.name();
        let erasure = store.newest_erasure(name);
        let wanted = usize::try_from(before.saturating_sub(after + 1)).unwrap_or(usize::MAX).min(self.page);
        let (found, entries) = match selection {
            Selection::All => {
                let known = if renders { lists.known_events(dataset, before, wanted, erasure) } else { Vec::new() };
                let newer = store.read_back(name, before, wanted - known.len()).await?;
                let mut entries = read_entries(lists, dataset, newer, renders.then_some(erasure))?;
                entries.extend(known.into_iter().map(|(seq, event)| ReadEntry::rendered(seq, event)));
                (entries.len(), entries)
            }
            Selection::Scopes(scopes) => {
                let between = SeqRange { after, before, projected };
                let seqs = shared.events.positions(name, scopes, between, true, wanted).await?;
                let rows = store.get_listed(name, &seqs).await?;
                (seqs.len(), read_entries(lists, dataset, rows, renders.then_some(erasure))?)
            }
        };
        self.erasure = erasure;
        self.done = found < self.page;
        self.page = (2 * self.page).min(MAX_PAGE);
        self.buffered = entries.into_iter();
        self.advance();
        Ok(())
    }

    fn take(&mut self) -> Option<ReadEntry> {
        let taken = self.advance();
        if let Some(taken) = &taken {
            self.slice.before = taken.seq;
        }
        taken
    }

    /// Moves to the entry behind the next one, and returns the next one.
    fn advance(&mut self) -> Option<ReadEntry> {
        let mut behind = self.buffered.next();
        if behind.as_ref().is_some_and(|behind| behind.created_at < self.slice.from) {
            // All further ones are older still.
            (behind, self.buffered, self.done) = (None, Vec::new().into_iter(), true);
        }
        replace(&mut self.next, behind)
    }
}

/// The entries of rows, or their events if `renders` has the newest erasure that was known before they were read. An
/// entry that cannot be rendered fails once it is taken. One without a readable outline fails at once, since its time
/// is not known.
fn read_entries(
    lists: &RenderedLists,
    dataset: &Dataset,
    rows: Vec<(u64, Bytes)>,
    renders: Option<u64>,
) -> StoreResult<Vec<ReadEntry>> {
    let read = |(seq, body): (u64, Bytes)| match renders.map(|erasure| lists.event(dataset, seq, &body, erasure)) {
        Some(Ok(event)) => Ok(ReadEntry::rendered(seq, event)),
        Some(Err(_)) | None => ReadEntry::stored(seq, body),
    };
    rows.into_iter().map(read).collect()
}

#[cfg(test)]
mod tests;
