//! The commands of a dataset's writer, and their results.

use prost::Message as _;

use crate::domain::{
    entry::Sequenced,
    observation::{Observation, Seen},
    row::NewThesis,
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
    /// The field that contradicts known data, when it was refused for that.
    pub refused: Option<&'static str>,
}

pub(in crate::log) enum Command {
    Create(Box<NewThesis>),
    Observe(Box<Observation>),
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
        }
    }

    /// Most entries it may add.
    pub(super) fn entries(&self) -> usize {
        match self {
            Self::Create(_) => 1,
            Self::Observe(_) => 3,
        }
    }
}
