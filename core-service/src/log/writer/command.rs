//! The commands of a dataset's writer, and their results.

use prost::Message as _;

use crate::{
    domain::{
        entry::{Entry, SequencedEntry},
        observation::{Observation, ObservedThing},
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
    pub entry: Option<SequencedEntry>,
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
    /// Maximum number of entries that one command adds, except an import: a thesis, its author and its token.
    pub(super) const MAX_ENTRIES: usize = 3;

    /// Size of the data in the command that its entries contain if these data are new.
    pub(super) fn payload_bytes(&self) -> usize {
        match self {
            Self::Create(new) => new.thesis.encoded_len() + new.profile.encoded_len() + new.token.encoded_len(),
            Self::Observe(observation) => match &observation.seen {
                ObservedThing::Thesis(seen) => seen.text.len(),
                _ => 0,
            },
            Self::DeleteSurplus { .. } | Self::Import(_) => 0,
        }
    }
}
