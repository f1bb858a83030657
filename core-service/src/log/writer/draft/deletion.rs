//! Drafts the entries of deletions and erasures.

use super::{Draft, EntryPlace};
use crate::{
    domain::{
        entry::{Kind, ThesisDeleted},
        id,
        row::Thesis,
    },
    store::StoreResult,
};

impl Draft<'_> {
    pub(in crate::log::writer) async fn delete(&mut self, mut thesis: Thesis, version: i64) -> StoreResult<EntryPlace> {
        // A thesis deleted before its observation was never counted.
        let by = if thesis.deleted_at.is_none() { -1 } else { 0 };
        thesis.deleted_at.get_or_insert(self.now);
        let at = self.time_of_next(None);
        thesis.removed_at = Some(at);
        if by == 0 {
            thesis.recorded_at = at;
        }
        let totals = self.totals(&thesis, by).await?;
        let (profile, token) = self.names(&thesis).await?;
        thesis.changed_in = Some(self.next_sequence());
        self.put_thesis(&thesis);
        let id = id::derive("ent_", &["deleted", &thesis.id, &version.to_string()]);
        let deleted = ThesisDeleted { thesis, totals, profile, token };
        Ok(self.add(id, None, false, Kind::ThesisDeleted(deleted)))
    }

    /// Adds the deletion of a thesis if its dataset has more than `limit`.
    pub(in crate::log::writer) async fn delete_surplus(&mut self, id: &str, limit: i64) -> StoreResult<EntryPlace> {
        let Some(thesis) = self.thesis(id).await? else { return Ok(EntryPlace::Nowhere) };
        if thesis.deleted_at.is_some() || self.dataset_totals().await?.theses <= limit {
            return Ok(EntryPlace::Nowhere);
        }
        let version = thesis.version;
        self.delete(thesis, version).await
    }

    /// Adds an entry that begins or ends an erasure: the row of a deleted thesis without its text.
    pub(in crate::log::writer) async fn erase_text(&mut self, id: &str) -> StoreResult<EntryPlace> {
        let Some(mut thesis) = self.thesis(id).await? else { return Ok(EntryPlace::Nowhere) };
        if thesis.deleted_at.is_none() {
            return Ok(EntryPlace::Nowhere);
        }
        thesis.text.clear();
        let version = thesis.version;
        Ok(self.change(&format!("erased {}", self.next_sequence()), thesis, version, Kind::Engagement))
    }
}
