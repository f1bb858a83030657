//! The documents that each entry of a log adds to the index, or removes.

use serde::{Deserialize, Serialize};
use tantivy::{IndexWriter, TantivyDocument};

use super::{
    Marks, SearchError,
    schema::{Terms, VERSION},
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
    pub(super) marks: Marks,
}

/// Adds the entries of logs to the index.
pub(super) struct Writer {
    pub(super) writer: IndexWriter,
    /// The positions of the added documents, committed or not.
    pub(super) marks: Marks,
    pub(super) generation: String,
}

impl Writer {
    /// Commits the added documents with their note.
    pub(super) fn commit(&mut self) -> Result<(), SearchError> {
        let note = CommitNote { version: VERSION, generation: self.generation.clone(), marks: self.marks.clone() };
        let note = serde_json::to_string(&note)?;
        let mut prepared = self.writer.prepare_commit()?;
        prepared.set_payload(&note);
        prepared.commit()?;
        Ok(())
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
