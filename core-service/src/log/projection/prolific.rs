//! The index rows that a prolific author's older theses get.
//!
//! They are written before all other rows of the entry that makes the author prolific, also before the row that says
//! so. So whoever reads that row finds all theses of the author in the other indexes. Their version is the number of
//! that entry: a thesis that is deleted later has a higher one.

use std::collections::BTreeMap;

use super::Projector;
use crate::{
    domain::{
        entry::{Kind, SequencedEntry},
        row::Thesis,
    },
    store::{Change, StoreResult},
    tables::theses::{IndexedRow, prolific_changes},
};

impl Projector {
    /// Collects these rows for all authors whom these entries make prolific.
    pub(super) async fn changes_of_new_prolific(&self, entries: &[SequencedEntry]) -> StoreResult<Vec<Change>> {
        let mut found = Vec::new();
        for (index, SequencedEntry { seq, entry }) in entries.iter().enumerate() {
            if let Some(Kind::ThesisCreated(created)) = &entry.kind
                && created.makes_prolific()
            {
                let (author, version) = (created.thesis.profile_id.as_str(), i64::try_from(*seq).unwrap_or(i64::MAX));
                let stored = self.theses.by_author_before(&self.dataset, author, version).await?;
                found.push((version, theses_before(author, stored, &entries[..index])));
            }
        }
        // Buckets count as known only after all reads: a failed read must not leave some that are never listed.
        let mut changes = Vec::new();
        for (version, theses) in found {
            for thesis in theses.values() {
                let is_new_bucket = |scope: &str, bucket: i64| self.is_new_bucket(scope, bucket);
                prolific_changes(&self.dataset, thesis, version, is_new_bucket, &mut changes);
            }
        }
        Ok(changes)
    }
}

/// The fields of an author's theses that their index rows need, by id: the stored theses as these entries change them.
fn theses_before(author: &str, stored: Vec<IndexedRow>, entries: &[SequencedEntry]) -> BTreeMap<String, Thesis> {
    let theses = stored.into_iter().map(|row| {
        let thesis = Thesis {
            id: row.id.clone(),
            profile_id: author.to_owned(),
            token_id: row.indexed.token_id,
            chain: row.indexed.chain,
            created_at: row.created_at,
            ..Thesis::default()
        };
        (row.id, thesis)
    });
    let mut theses: BTreeMap<String, Thesis> = theses.collect();
    for SequencedEntry { entry, .. } in entries {
        match &entry.kind {
            Some(Kind::ThesisCreated(created)) if created.thesis.profile_id == author => {
                theses.insert(created.thesis.id.clone(), created.thesis.clone());
            }
            Some(Kind::ThesisDeleted(deleted)) => drop(theses.remove(&deleted.thesis.id)),
            _ => {}
        }
    }
    theses
}
