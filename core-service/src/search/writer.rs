//! The documents that each entry of a log adds to the index, or removes.

use tantivy::{IndexWriter, TantivyDocument};

use super::{Marks, schema::Terms};
use crate::domain::{
    entry::{Entry, Kind as Happened},
    row::{Profile, Token},
};

/// Takes the entries of logs into the index.
pub(super) struct Writer {
    pub(super) writer: IndexWriter,
    /// How far the added documents reach, committed or not.
    pub(super) marks: Marks,
}

impl Writer {
    /// Takes in an entry of a dataset.
    pub(super) fn take_in(&mut self, terms: &Terms, entry: &Entry) -> tantivy::Result<()> {
        match &entry.kind {
            Some(Happened::ThesisCreated(created)) => {
                if created.introduces_profile {
                    self.put_profile(terms, &created.profile)?;
                }
                if created.introduces_token {
                    self.put_token(terms, &created.token)?;
                }
                self.put(terms, &created.thesis.id, terms.thesis(&created.thesis))
            }
            Some(Happened::ThesisEdited(changed) | Happened::Engagement(changed)) => {
                let thesis = Some(&changed.thesis).filter(|thesis| thesis.deleted_at.is_none());
                self.put(terms, &changed.thesis.id, thesis.and_then(|thesis| terms.thesis(thesis)))
            }
            Some(Happened::ThesisDeleted(deleted)) => self.put(terms, &deleted.thesis.id, None),
            Some(Happened::ProfileObserved(observed)) => self.put_profile(terms, &observed.profile),
            Some(Happened::ProfileUpdated(updated)) => self.put_profile(terms, &updated.profile),
            Some(Happened::TokenObserved(observed)) => self.put_token(terms, &observed.token),
            Some(Happened::TokenActivity(_) | Happened::ThesisVelocity(_) | Happened::ThesisAwaited(_)) | None => {
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
