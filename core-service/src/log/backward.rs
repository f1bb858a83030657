//! Reads the logs of a view backward, merged: by time, then dataset, then sequence number.

use std::collections::VecDeque;

use thesis_proto::v1;

use crate::{
    convert,
    domain::{
        dataset::Dataset,
        entry::{Entry, SequencedEntry},
    },
    error::Result,
    log::selection::Selection,
    shared::Shared,
    tables::{events::SeqRange, log::decode},
};

/// The part of a dataset's log that is read backward.
pub struct LogSlice {
    pub dataset: Dataset,
    /// Entries below this sequence number.
    pub before: u64,
    /// Entries above this sequence number.
    pub after: u64,
    /// Entries not older than this, in unix milliseconds.
    pub from: i64,
}

struct LogCursor {
    slice: LogSlice,
    name: String,
    buffered: VecDeque<SequencedEntry>,
    /// True when the store has no entries beyond the buffered ones.
    done: bool,
}

pub struct Backward<'a> {
    shared: &'a Shared,
    selection: Selection,
    logs: Vec<LogCursor>,
    page: usize,
}

/// For each dataset, the exclusive upper bound of the sequence numbers that are still to be read.
pub type Positions = Vec<u64>;

impl<'a> Backward<'a> {
    /// Reads the selected entries of these slices, one page of each at a time.
    pub fn new(shared: &'a Shared, selection: Selection, slices: Vec<LogSlice>, page: usize) -> Self {
        let cursor = |slice: LogSlice| LogCursor {
            name: slice.dataset.to_string(),
            slice,
            buffered: VecDeque::new(),
            done: false,
        };
        Self { shared, selection, logs: slices.into_iter().map(cursor).collect(), page }
    }

    /// Takes the next entry, with the index of its dataset in the view.
    pub async fn next(&mut self) -> Result<Option<(usize, SequencedEntry)>> {
        for log in &mut self.logs {
            if log.buffered.is_empty() && !log.done {
                log.fill(self.shared, &self.selection, self.page).await?;
            }
        }
        let newest = self
            .logs
            .iter()
            .enumerate()
            .filter_map(|(index, log)| Some((log.buffered.front()?.entry.created_at, &log.slice.dataset, index)))
            .max()
            .map(|(_, _, index)| index);
        Ok(newest.and_then(|index| {
            let log = &mut self.logs[index];
            let entry = log.buffered.pop_front()?;
            log.slice.before = entry.seq;
            Some((index, entry))
        }))
    }

    /// The read positions: entries at and above these are already taken, or not wanted.
    pub fn positions(&self) -> Positions {
        self.logs.iter().map(|log| log.buffered.front().map_or(log.slice.before, |next| next.seq + 1)).collect()
    }

    pub fn has_more(&self) -> bool {
        self.logs.iter().any(|log| !log.done || !log.buffered.is_empty())
    }

    pub fn event(&self, index: usize, entry: &Entry) -> Option<v1::Event> {
        convert::entry::event(&self.logs[index].slice.dataset, entry)
    }
}

impl LogCursor {
    async fn fill(&mut self, shared: &Shared, selection: &Selection, page: usize) -> Result<()> {
        let LogSlice { before, after, from, .. } = self.slice;
        let wanted = usize::try_from(before.saturating_sub(after + 1)).unwrap_or(usize::MAX).min(page);
        let store = &shared.log;
        let (found, rows) = match selection {
            Selection::All => {
                let rows = store.read_back(&self.name, before, wanted).await?;
                (rows.len(), rows)
            }
            Selection::Scopes(scopes) => {
                let between = SeqRange { after, before };
                let seqs = shared.events.positions(&self.name, scopes, between, true, wanted).await?;
                (seqs.len(), store.get_many(&self.name, &seqs).await?)
            }
        };
        self.done = found < page;
        for (seq, body) in rows {
            let entry = decode(body)?;
            if entry.created_at < from {
                self.done = true;
                break;
            }
            self.buffered.push_back(SequencedEntry { seq, entry });
        }
        Ok(())
    }
}
