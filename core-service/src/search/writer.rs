//! The documents that each entry of a log adds to the index, or removes.

use std::mem::take;

use serde::{Deserialize, Serialize};
use tantivy::{IndexWriter, TantivyDocument};

use super::{
    LogMark, Marks, SearchError,
    marks::{ChangedMarks, write_marks},
    schema::{Fields, Terms, VERSION},
};
use crate::domain::{
    entry::{Entry, Kind as EntryKind, ThesisChanged, ThesisEdited},
    row::{Profile, Token},
};

/// The note is committed with the documents, so both always agree.
#[derive(Serialize, Deserialize)]
pub(super) struct CommitNote {
    pub(super) version: u32,
    /// The generation of the logs.
    pub(super) generation: String,
}

/// Adds the entries of logs to the index.
pub(super) struct Writer {
    pub(super) writer: IndexWriter,
    /// The positions of the added documents, committed or not.
    pub(super) marks: Marks,
    /// The marks that have changed since the last commit.
    pub(super) changed: ChangedMarks,
    pub(super) generation: String,
}

impl Writer {
    /// Sets the mark of a dataset; none if the index holds nothing of it any more.
    pub(super) fn set_mark(&mut self, name: &str, mark: Option<LogMark>) {
        match &mark {
            Some(mark) => drop(self.marks.insert(name.to_owned(), mark.clone())),
            None => drop(self.marks.remove(name)),
        }
        self.changed.insert(name.to_owned(), mark);
    }

    /// Commits the added documents with their marks and the note. Returns the changed marks.
    pub(super) fn commit(&mut self, fields: &Fields) -> Result<ChangedMarks, SearchError> {
        write_marks(&self.writer, fields, &self.changed)?;
        let note = serde_json::to_string(&CommitNote { version: VERSION, generation: self.generation.clone() })?;
        let mut prepared = self.writer.prepare_commit()?;
        prepared.set_payload(&note);
        prepared.commit()?;
        Ok(take(&mut self.changed))
    }

    pub(super) fn apply_entry(&mut self, terms: &Terms, entry: &Entry) -> tantivy::Result<()> {
        match &entry.kind {
            Some(EntryKind::ThesisCreated(created)) => {
                if created.introduces_profile {
                    self.put_profile(terms, &created.profile)?;
                }
                if created.introduces_token {
                    self.put_token(terms, &created.token)?;
                }
                self.put(terms, &created.thesis.id, terms.thesis(&created.thesis))
            }
            Some(
                EntryKind::ThesisEdited(ThesisEdited { thesis, .. }) | EntryKind::Engagement(ThesisChanged { thesis }),
            ) => {
                let present = Some(thesis).filter(|thesis| thesis.deleted_at.is_none());
                self.put(terms, &thesis.id, present.and_then(|thesis| terms.thesis(thesis)))
            }
            Some(EntryKind::ThesisDeleted(deleted)) => self.put(terms, &deleted.thesis.id, None),
            Some(EntryKind::ProfileObserved(observed)) => self.put_profile(terms, &observed.profile),
            Some(EntryKind::ProfileUpdated(updated)) => self.put_profile(terms, &updated.profile),
            Some(EntryKind::TokenObserved(observed)) => self.put_token(terms, &observed.token),
            Some(EntryKind::TokenActivity(_) | EntryKind::ThesisVelocity(_) | EntryKind::ThesisAwaited(_)) | None => {
                Ok(())
            }
        }
    }

    fn put_profile(&mut self, terms: &Terms, profile: &Profile) -> tantivy::Result<()> {
        self.put(terms, &profile.id, terms.profile(profile))
    }

    fn put_token(&mut self, terms: &Terms, token: &Token) -> tantivy::Result<()> {
        self.put(terms, &token.id, terms.token(token))
    }

    fn put(&mut self, terms: &Terms, id: &str, document: Option<TantivyDocument>) -> tantivy::Result<()> {
        self.writer.delete_term(terms.term(terms.fields.id, id));
        document.map_or(Ok(()), |document| self.writer.add_document(document).map(drop))
    }
}
