//! The commands of a dataset's writer, and their results.

use prost::Message as _;

use super::BATCH_ENTRIES;
use crate::{
    domain::{
        entry::{Entry, Sequenced},
        observation::{Observation, Seen},
        row::NewThesis,
    },
    tables::log::ImportMark,
};

/// The result of a command.
#[derive(Clone, Debug)]
pub struct Written {
    /// The row that it concerns.
    pub id: String,
    /// Its entry, new or found; none when nothing was new.
    pub entry: Option<Sequenced>,
    /// Whether the entry is new.
    pub applied: bool,
    /// The id of the event that it caused.
    pub event_id: Option<String>,
    /// The field that contradicts known data, when it was refused for that; of an import, why it was refused.
    pub refused: Option<&'static str>,
}

/// A part of the entries that are copied into a log.
#[derive(Clone, Debug)]
pub struct Import {
    /// What they are a part of.
    pub mark: ImportMark,
    /// The sequence number before the first of them.
    pub after: u64,
    /// The entries; none asks only whether the import may begin or go on.
    pub entries: Vec<Entry>,
}

pub(in crate::log) enum Command {
    Create(Box<NewThesis>),
    Observe(Box<Observation>),
    /// Deletes a thesis if its dataset has more than `limit` then.
    DeleteSurplus {
        id: String,
        limit: i64,
    },
    Import(Box<Import>),
}

impl Command {
    /// About how many bytes it adds to a batch.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Create(new) => 500 + new.thesis.encoded_len() + new.profile.encoded_len() + new.token.encoded_len(),
            Self::Observe(observation) => match &observation.seen {
                // Author and token may add entries of their own.
                Seen::Thesis(seen) => 6_000 + seen.text.len(),
                _ => 6_000,
            },
            // A text has up to 2,000 characters.
            Self::DeleteSurplus { .. } => 9_000,
            Self::Import(_) => 0,
        }
    }

    /// Most entries it may add.
    pub(super) fn entries(&self) -> usize {
        match self {
            Self::Create(_) | Self::DeleteSurplus { .. } => 1,
            Self::Observe(_) => 3,
            // Nothing else goes into its batches.
            Self::Import(_) => BATCH_ENTRIES + 1,
        }
    }
}
