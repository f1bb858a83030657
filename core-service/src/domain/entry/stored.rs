//! The bytes of entries in a log.
//!
//! Most entries create a thesis. The stored form of such an entry leaves out what follows from its place and from its
//! other fields: the id of the event, and the sequence number in the thesis. Two times are stored as distances:
//! `recorded_at` from the time of the entry, and `updated_at` from the time of the post. They are usually 0, which
//! takes no bytes. A creation without an id has this form, since no entry has an empty id. All others are stored as
//! they are.

use bytes::Buf;
use prost::{DecodeError, Message as _};

use super::{Entry, Kind};
use crate::domain::event_id::thesis_event_id;

impl Entry {
    /// The bytes that a log has at this sequence number.
    #[must_use]
    pub fn stored(&self, seq: u64) -> Vec<u8> {
        let Some(Kind::ThesisCreated(created)) = &self.kind else { return self.encode_to_vec() };
        debug_assert!(!self.id.is_empty(), "a creation without an id would be decoded as the short form");
        if !created.is_found_at(&self.id, seq) {
            return self.encode_to_vec();
        }
        let mut created = created.clone();
        let thesis = &mut created.thesis;
        thesis.sequence = None;
        thesis.recorded_at = thesis.recorded_at.wrapping_sub(self.created_at);
        thesis.updated_at = thesis.updated_at.wrapping_sub(thesis.created_at);
        let (id, kind) = (String::new(), Some(Kind::ThesisCreated(created)));
        let (trace, salt) = (self.trace.clone(), self.salt.clone());
        Self { id, created_at: self.created_at, test: self.test, kind, trace, salt }.encode_to_vec()
    }

    /// Decodes the bytes that a log has at this sequence number.
    pub fn from_stored(seq: u64, stored: impl Buf) -> Result<Self, DecodeError> {
        let mut entry = Self::decode(stored)?;
        if let Some(Kind::ThesisCreated(created)) = &mut entry.kind
            && entry.id.is_empty()
        {
            let thesis = &mut created.thesis;
            thesis.sequence = Some(seq);
            thesis.recorded_at = thesis.recorded_at.wrapping_add(entry.created_at);
            thesis.updated_at = thesis.updated_at.wrapping_add(thesis.created_at);
            entry.id = thesis_event_id(&thesis.id);
        }
        Ok(entry)
    }

    /// Decodes like [`Self::from_stored`], but completely: unknown content is an error.
    pub fn read_whole(seq: u64, stored: &[u8]) -> Result<Self, String> {
        let entry = Self::from_stored(seq, stored).map_err(|error| format!("is damaged: {error}"))?;
        if !entry.is_known() || entry.stored(seq) != stored {
            return Err("has something that this version does not know; use the version that wrote it".to_owned());
        }
        Ok(entry)
    }
}
