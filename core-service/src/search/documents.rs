//! The documents that each entry of a log adds to the index, or removes.

use tantivy::{TantivyDocument, Term};

use super::{schema::Terms, shard::Shard};
use crate::domain::{
    dataset::Dataset,
    entry::{Entry, Kind as EntryKind, ThesisChanged, ThesisEdited},
    row::{Profile, Thesis, Token},
};

/// A new version of a document. Applying changes again in their order ends in the same state.
pub(super) struct Change {
    pub(super) shard: Shard,
    /// The term of its id, which the versions before it have too.
    pub(super) id: Term,
    /// None when the row is deleted, or has no id of this service.
    pub(super) document: Option<TantivyDocument>,
}

/// Returns the changes of a dataset's entry.
pub(super) fn changes(terms: &Terms, dataset: &Dataset, entry: &Entry) -> Vec<Change> {
    let change = |shard, id: &str, document| Change { shard, id: terms.term(terms.fields.id, id), document };
    let of_thesis = |thesis: &Thesis, is_deleted: bool| {
        let document = if is_deleted { None } else { terms.thesis(thesis) };
        change(Shard::of_thesis(dataset, thesis.created_at), &thesis.id, document)
    };
    let of_profile = |profile: &Profile| change(Shard::Common, &profile.id, terms.profile(profile));
    let of_token = |token: &Token| change(Shard::Common, &token.id, terms.token(token));
    match &entry.kind {
        Some(EntryKind::ThesisCreated(created)) => {
            let profile = Some(&created.profile).filter(|_| created.introduces_profile).map(of_profile);
            let token = Some(&created.token).filter(|_| created.introduces_token).map(of_token);
            profile.into_iter().chain(token).chain([of_thesis(&created.thesis, false)]).collect()
        }
        Some(
            EntryKind::ThesisEdited(ThesisEdited { thesis, .. }) | EntryKind::Engagement(ThesisChanged { thesis }),
        ) => {
            vec![of_thesis(thesis, thesis.deleted_at.is_some())]
        }
        Some(EntryKind::ThesisDeleted(deleted)) => vec![of_thesis(&deleted.thesis, true)],
        Some(EntryKind::ProfileObserved(observed)) => vec![of_profile(&observed.profile)],
        Some(EntryKind::ProfileUpdated(updated)) => vec![of_profile(&updated.profile)],
        Some(EntryKind::TokenObserved(observed)) => vec![of_token(&observed.token)],
        Some(EntryKind::TokenActivity(_) | EntryKind::ThesisVelocity(_)) => Vec::new(),
        Some(EntryKind::ThesisAwaited(_) | EntryKind::ArchiveFile(_)) | None => Vec::new(),
    }
}
