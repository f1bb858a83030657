//! Drafts the erasure of a deleted thesis' text.

use super::{Draft, EntryPlace};
use crate::{domain::entry::Kind, store::StoreResult};

impl Draft<'_> {
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
