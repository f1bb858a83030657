//! Finds events in their logs by id. Most ids say where their event is (`domain/event_id.rs`). Only the other events
//! have a row.

use bytes::Bytes;

use super::theses::ThesisStore;
use crate::{
    convert::entry::event_type,
    domain::{
        entry::{Entry, Kind},
        event_id::{EventIdCipher, thesis_of_event},
    },
    key,
    store::{Change, Consistency, SharedBackend, StoreResult, schema},
};

/// The change that stores the position of an event; none for an entry that is no event, and if the id says it.
pub fn position_change(ids: &EventIdCipher, dataset: &str, entry: &Entry, seq: u64) -> Option<Change> {
    event_type(entry)?;
    let says_position = match &entry.kind {
        Some(Kind::ThesisCreated(created)) => created.is_found_at(&entry.id, seq),
        // An import can bring ids of another store or another project.
        Some(Kind::TokenActivity(_) | Kind::ThesisVelocity(_) | Kind::AlertFiring(_) | Kind::AlertResolved(_)) => {
            ids.decrypt(dataset, &entry.id) == Some(seq)
        }
        _ => false,
    };
    let version = i64::try_from(seq).unwrap_or(i64::MAX);
    (!says_position).then(|| Change {
        table: &schema::EVENT,
        key: key![dataset, &entry.id],
        version,
        body: Some(Bytes::new()),
        ttl: None,
    })
}

#[derive(Clone)]
pub struct EventPositions {
    backend: SharedBackend,
    theses: ThesisStore,
    pub ids: EventIdCipher,
}

impl EventPositions {
    pub fn new(backend: SharedBackend, theses: ThesisStore, ids: EventIdCipher) -> Self {
        Self { backend, theses, ids }
    }

    /// Reads the sequence number that the id of an event leads to. None if it leads nowhere. A restored log may end
    /// before it, or have another entry there.
    pub async fn position_of(&self, dataset: &str, id: &str) -> StoreResult<Option<u64>> {
        if let Some(seq) = self.ids.decrypt(dataset, id) {
            return Ok(Some(seq));
        }
        if let Some(thesis_id) = thesis_of_event(id) {
            let found = self.theses.theses(&[(dataset, thesis_id.as_str())]).await?;
            if let Some(seq) = found.into_iter().flatten().next().and_then(|thesis| thesis.sequence) {
                return Ok(Some(seq));
            }
        }
        let row = self.backend.get(&schema::EVENT, &key![dataset, id], Consistency::Quorum).await?;
        Ok(row.map(|row| row.version.unsigned_abs()))
    }
}
