//! The files of one day: which entries of the log give which rows.

use std::{collections::HashMap, fs::File, ops::RangeInclusive};

use parquet::errors::Result;
use thesis_proto::{
    json,
    names::{event_type_name, source_name},
};

use super::{
    columns::{
        Cell, Column,
        ColumnKind::{Flag, Integer, Text, Time},
        TableWriter, WrittenFile,
    },
    hours::HourCounts,
};
use crate::{
    convert::entry::event,
    domain::{
        archive::{Day, FileKind},
        dataset::Dataset,
        entry::{Entry, Kind, NamedProfile, NamedToken, SequencedEntry},
        row::{Profile, Thesis, Token},
    },
};

const THESES: &[Column] = &[
    Column::new("id", Text),
    Column::new("profile_id", Text),
    Column::new("handle", Text),
    Column::new("token_id", Text),
    Column::new("symbol", Text),
    Column::new("chain", Text),
    Column::new("address", Text),
    Column::new("text", Text),
    Column::optional("likes", Integer),
    Column::optional("replies", Integer),
    Column::new("created_at", Time),
    Column::new("updated_at", Time),
    Column::new("recorded_at", Time),
    Column::new("sequence", Integer),
];

const EVENTS: &[Column] = &[
    Column::new("id", Text),
    Column::new("type", Text),
    Column::new("created_at", Time),
    Column::new("source", Text),
    Column::new("test", Flag),
    Column::new("json", Text),
];

const TOKEN_HOURS: &[Column] = &[
    Column::new("token_id", Text),
    Column::new("symbol", Text),
    Column::new("chain", Text),
    Column::new("address", Text),
    Column::new("hour", Time),
    Column::new("theses", Integer),
    Column::new("unique_authors", Integer),
];

const CHANGES: &[Column] = &[
    Column::new("change", Text),
    Column::new("thesis_id", Text),
    Column::new("profile_id", Text),
    Column::new("handle", Text),
    Column::new("token_id", Text),
    Column::new("symbol", Text),
    Column::new("chain", Text),
    Column::new("address", Text),
    Column::optional("text", Text),
    Column::new("created_at", Time),
    Column::optional("deleted_at", Time),
    Column::new("recorded_at", Time),
    Column::new("sequence", Integer),
];

const fn columns(kind: FileKind) -> &'static [Column] {
    match kind {
        FileKind::Theses => THESES,
        FileKind::Events => EVENTS,
        FileKind::TokenHours => TOKEN_HOURS,
        FileKind::Changes => CHANGES,
    }
}

/// The part of a log that the files of a day are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LogPart {
    /// Theses of the day come after this: their dates may lie a little ahead of their entries.
    pub(super) theses_after: u64,
    /// The day's own entries come after this.
    pub(super) after: u64,
    /// The last entry of the day.
    pub(super) upto: u64,
}

impl LogPart {
    /// True if the part has an entry with one of these sequence numbers.
    pub(super) fn overlaps(self, sequences: &RangeInclusive<u64>) -> bool {
        *sequences.start() <= self.upto && *sequences.end() > self.theses_after
    }
}

/// What became of theses that entries of the part changed: the sequence number of the last change, by that of the
/// creation. A map of numbers has room for a day of millions of changes.
#[derive(Default)]
pub(super) struct LastChanges(HashMap<u64, u64>);

impl LastChanges {
    /// Notes the changes in an entry.
    pub(super) fn note(&mut self, SequencedEntry { seq, entry }: &SequencedEntry) {
        let changed = match &entry.kind {
            Some(Kind::ThesisEdited(edited)) => &edited.thesis,
            Some(Kind::ThesisDeleted(deleted)) => &deleted.thesis,
            Some(Kind::Engagement(changed)) => &changed.thesis,
            _ => return,
        };
        if let Some(created) = changed.sequence {
            self.0.insert(created, *seq);
        }
    }

    /// The last change of the thesis that an entry created.
    pub(super) fn of(&self, created: u64) -> Option<u64> {
        self.0.get(&created).copied()
    }
}

/// Writes the files of a day from the entries of the log, in order.
pub(super) struct DayWriter {
    dataset: Dataset,
    day: Day,
    part: LogPart,
    theses: TableWriter,
    events: TableWriter,
    changes: TableWriter,
    token_hours: TableWriter,
    hours: HourCounts,
}

impl DayWriter {
    /// Begins the files. `scratch` makes an empty file.
    pub(super) fn new(
        dataset: &Dataset,
        day: Day,
        part: LogPart,
        scratch: impl Fn() -> std::io::Result<File>,
    ) -> Result<Self> {
        let begin = |kind: FileKind| {
            let facts = vec![
                ("dataset", dataset.to_string()),
                ("date", day.to_string()),
                ("kind", kind.as_str().to_owned()),
                ("position", part.upto.to_string()),
            ];
            TableWriter::new(scratch()?, columns(kind), facts)
        };
        Ok(Self {
            dataset: dataset.clone(),
            day,
            part,
            theses: begin(FileKind::Theses)?,
            events: begin(FileKind::Events)?,
            changes: begin(FileKind::Changes)?,
            token_hours: begin(FileKind::TokenHours)?,
            hours: HourCounts::default(),
        })
    }

    /// True if an entry creates a thesis of the day.
    pub(super) fn creates_thesis(day: Day, entry: &Entry) -> bool {
        matches!(&entry.kind, Some(Kind::ThesisCreated(created)) if Day::of(created.thesis.created_at) == day)
    }

    /// Adds the rows of an entry. `current` is the thesis that the entry created, as its last change in the part left
    /// it; none if nothing changed it.
    pub(super) fn add(&mut self, sequenced: &SequencedEntry, current: Option<&Thesis>) -> Result<()> {
        let SequencedEntry { seq, entry } = sequenced;
        if let Some(Kind::ThesisCreated(created)) = &entry.kind
            && Self::creates_thesis(self.day, entry)
        {
            let thesis = current.unwrap_or(&created.thesis);
            if thesis.deleted_at.is_none() {
                self.add_thesis(thesis, &created.profile, &created.token, *seq, entry.created_at)?;
            }
        }
        if *seq > self.part.after {
            self.add_event(entry)?;
            self.add_change(entry, *seq)?;
        }
        Ok(())
    }

    fn add_thesis(
        &mut self,
        thesis: &Thesis,
        profile: &Profile,
        token: &Token,
        seq: u64,
        recorded_at: i64,
    ) -> Result<()> {
        self.hours.add(thesis, token);
        self.theses.push(&[
            Cell::Text(&thesis.id),
            Cell::Text(&profile.id),
            Cell::Text(&profile.handle),
            Cell::Text(&token.id),
            Cell::Text(&token.symbol),
            Cell::Text(&token.chain),
            Cell::Text(&token.address),
            Cell::Text(&thesis.text),
            Cell::number(thesis.likes),
            Cell::number(thesis.replies),
            Cell::Integer(thesis.created_at),
            Cell::Integer(thesis.updated_at),
            Cell::Integer(recorded_at),
            sequence(seq),
        ])
    }

    fn add_event(&mut self, entry: &Entry) -> Result<()> {
        let Some(event) = event(&self.dataset, entry) else { return Ok(()) };
        let json = serde_json::to_string(&json::Event::from(&event)).map_err(|error| error.to_string());
        let json = json.map_err(parquet::errors::ParquetError::General)?;
        self.events.push(&[
            Cell::Text(&event.id),
            Cell::Text(event_type_name(event.r#type())),
            Cell::Integer(entry.created_at),
            Cell::Text(source_name(event.source())),
            Cell::Flag(entry.test),
            Cell::Text(&json),
        ])
    }

    fn add_change(&mut self, entry: &Entry, seq: u64) -> Result<()> {
        let of_earlier_day = |thesis: &Thesis| Day::of(thesis.created_at) < self.day && thesis.sequence.is_some();
        let (change, thesis, text, profile, token) = match &entry.kind {
            Some(Kind::ThesisCreated(created)) if of_earlier_day(&created.thesis) => {
                let (profile, token) = (named_profile(&created.profile), named_token(&created.token));
                ("late", &created.thesis, Cell::Text(&created.thesis.text), profile, token)
            }
            Some(Kind::ThesisEdited(edited)) if of_earlier_day(&edited.thesis) => {
                let (profile, token) = (edited.profile.clone(), edited.token.clone());
                ("edited", &edited.thesis, Cell::Text(&edited.thesis.text), profile, token)
            }
            Some(Kind::ThesisDeleted(deleted)) if of_earlier_day(&deleted.thesis) => {
                ("deleted", &deleted.thesis, Cell::Null, deleted.profile.clone(), deleted.token.clone())
            }
            _ => return Ok(()),
        };
        self.changes.push(&[
            Cell::Text(change),
            Cell::Text(&thesis.id),
            Cell::Text(&profile.id),
            Cell::Text(&profile.handle),
            Cell::Text(&token.id),
            Cell::Text(&token.symbol),
            Cell::Text(&token.chain),
            Cell::Text(&token.address),
            text,
            Cell::Integer(thesis.created_at),
            Cell::number(thesis.deleted_at),
            Cell::Integer(entry.created_at),
            sequence(seq),
        ])
    }

    /// Ends the files, in the order of [`FileKind::ALL`].
    pub(super) fn finish(mut self) -> Result<Vec<(FileKind, WrittenFile)>> {
        self.hours.sort();
        for row in self.hours.rows() {
            self.token_hours.push(&[
                Cell::Text(&row.token.id),
                Cell::Text(&row.token.symbol),
                Cell::Text(&row.token.chain),
                Cell::Text(&row.token.address),
                Cell::Integer(row.hour),
                Cell::Integer(row.theses),
                Cell::Integer(row.unique_authors),
            ])?;
        }
        let Self { theses, events, token_hours, changes, .. } = self;
        let writers = [theses, events, token_hours, changes];
        FileKind::ALL.into_iter().zip(writers).map(|(kind, writer)| Ok((kind, writer.finish()?))).collect()
    }
}

fn sequence(seq: u64) -> Cell<'static> {
    Cell::Integer(i64::try_from(seq).unwrap_or(i64::MAX))
}

fn named_profile(profile: &Profile) -> NamedProfile {
    NamedProfile { id: profile.id.clone(), handle: profile.handle.clone() }
}

fn named_token(token: &Token) -> NamedToken {
    let (id, chain) = (token.id.clone(), token.chain.clone());
    NamedToken { id, chain, address: token.address.clone(), symbol: token.symbol.clone() }
}
