//! The commands of a dataset's writer, and their results.

use prost::Message as _;

use crate::{
    domain::{
        alert::{AlertChange, Crossing},
        entry::{ArchiveFile, Entry, SequencedEntry},
        observation::{Observation, ObservedThing},
        row::NewThesis,
    },
    tables::log::ImportMark,
};

#[derive(Clone, Debug)]
pub struct CommandOutcome {
    /// Id of the row that the command concerns.
    pub id: String,
    /// Its entry, new or found; none when the command changes nothing.
    pub entry: Option<SequencedEntry>,
    pub applied: bool,
    pub event_id: Option<String>,
    /// Set when the command was refused: the field that contradicts known data, or the reason for an import.
    pub refused: Option<&'static str>,
    /// True if earlier observations had all values of this one, and one of them its time.
    pub was_known: bool,
}

/// A part of the entries that are copied into a log.
#[derive(Clone, Debug)]
pub struct Import {
    pub mark: ImportMark,
    /// The sequence number before the first entry.
    pub after: u64,
    /// The entries. An empty list only checks that the import may begin or continue.
    pub entries: Vec<Entry>,
}

pub(in crate::log) enum Command {
    Create(Box<NewThesis>),
    Observe(Box<Observation>),
    /// Deletes a thesis if its dataset has more than `limit` theses at that moment.
    DeleteSurplus {
        id: String,
        limit: i64,
    },
    /// Erases the text from the row of a deleted thesis.
    EraseText {
        id: String,
    },
    /// Makes sure that the log has an entry younger than `at`. The times of a log never decrease, so every later entry
    /// is younger than `at` too.
    CloseTime {
        at: i64,
    },
    /// Adds a file of the archive.
    AddFile(Box<ArchiveFile>),
    Import(Box<Import>),
    /// Adds the next change of an alert's progress, unless the log has a change with its revision.
    ChangeAlert(Box<AlertChange>, Crossing),
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
            Self::ChangeAlert(change, _) => change.encoded_len(),
            Self::DeleteSurplus { .. } | Self::EraseText { .. } | Self::CloseTime { .. } => 0,
            Self::AddFile(_) | Self::Import(_) => 0,
        }
    }
}
