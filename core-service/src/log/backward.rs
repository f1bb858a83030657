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
    tables::{events::Between, log::decode},
};

/// The part of a dataset's log that is read backward.
pub struct LogSlice {
    /// The dataset.
    pub dataset: Dataset,
    /// Entries below this sequence number.
    pub before: u64,
    /// Entries above this sequence number.
    pub after: u64,
    /// Entries not older than this, in unix milliseconds.
    pub from: i64,
}

struct Side {
    slice: LogSlice,
    name: String,
    waiting: VecDeque<SequencedEntry>,
    /// Whether the waiting entries are the last.
    done: bool,
}

/// Reads the logs of a view backward, merged.
pub struct Backward<'a> {
    shared: &'a Shared,
    selection: Selection,
    sides: Vec<Side>,
    page: usize,
}

/// For each dataset, the sequence number below which no entry was taken yet.
pub type Positions = Vec<u64>;

impl<'a> Backward<'a> {
    /// Reads the selected entries of these slices, a page of each at once.
    #[must_use]
    pub fn new(shared: &'a Shared, selection: Selection, slices: Vec<LogSlice>, page: usize) -> Self {
        let side =
            |slice: LogSlice| Side { name: slice.dataset.to_string(), slice, waiting: VecDeque::new(), done: false };
        Self { shared, selection, sides: slices.into_iter().map(side).collect(), page }
    }

    /// Takes the next entry, with its dataset's place in the view.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn next(&mut self) -> Result<Option<(usize, SequencedEntry)>> {
        for side in &mut self.sides {
            if side.waiting.is_empty() && !side.done {
                side.fill(self.shared, &self.selection, self.page).await?;
            }
        }
        let newest = self
            .sides
            .iter()
            .enumerate()
            .filter_map(|(index, side)| Some((side.waiting.front()?.entry.created_at, &side.slice.dataset, index)))
            .max()
            .map(|(_, _, index)| index);
        Ok(newest.and_then(|index| {
            let side = &mut self.sides[index];
            let taken = side.waiting.pop_front()?;
            side.slice.before = taken.seq;
            Some((index, taken))
        }))
    }

    /// How far reading has come: entries at and above these are taken or not wanted.
    #[must_use]
    pub fn positions(&self) -> Positions {
        self.sides.iter().map(|side| side.waiting.front().map_or(side.slice.before, |next| next.seq + 1)).collect()
    }

    /// Whether there may be more to take.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.sides.iter().any(|side| !side.done || !side.waiting.is_empty())
    }

    /// The event of an entry, for the dataset at this place.
    #[must_use]
    pub fn event(&self, index: usize, entry: &Entry) -> Option<v1::Event> {
        convert::entry::event(&self.sides[index].slice.dataset, entry)
    }
}

impl Side {
    /// Reads the next entries.
    async fn fill(&mut self, shared: &Shared, selection: &Selection, page: usize) -> Result<()> {
        let LogSlice { before, after, from, .. } = self.slice;
        let wanted = usize::try_from(before.saturating_sub(after + 1)).unwrap_or(usize::MAX).min(page);
        let log = &shared.log;
        let (found, rows) = match selection {
            Selection::All => {
                let rows = log.read_back(&self.name, before, wanted).await?;
                (rows.len(), rows)
            }
            Selection::Scopes(scopes) => {
                let between = Between { after, before };
                let seqs = shared.events.positions(&self.name, scopes, between, true, wanted).await?;
                (seqs.len(), log.get_many(&self.name, &seqs).await?)
            }
        };
        self.done = found < page;
        for (seq, body) in rows {
            let entry = decode(body)?;
            if entry.created_at < from {
                self.done = true;
                break;
            }
            self.waiting.push_back(SequencedEntry { seq, entry });
        }
        Ok(())
    }
}
