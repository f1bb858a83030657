//! The bytes of entries in a log.
//!
//! Most entries create a thesis. The stored form of such an entry leaves out what follows from its place and from its
//! other fields: the id of the event, and in the thesis its sequence number, author, token and chain. Two times are
//! stored as distances: `recorded_at` from the time of the entry, and `updated_at` from the time of the post. They are
//! usually 0, which takes no bytes. A creation without an id has this form, since no entry has an empty id. All others
//! are stored as they are.

use bytes::Buf;
use prost::{DecodeError, Message as _};

use super::{Entry, Kind, ThesisCreated};
use crate::domain::event_id::thesis_event_id;

impl ThesisCreated {
    /// True if the thesis is by this author and on this token.
    fn is_of_its_rows(&self) -> bool {
        let Self { thesis, profile, token, .. } = self;
        thesis.profile_id == profile.id && thesis.token_id == token.id && thesis.chain == token.chain
    }
}

impl Entry {
    /// The bytes that a log has at this sequence number.
    #[must_use]
    pub fn stored(&self, seq: u64) -> Vec<u8> {
        let Some(Kind::ThesisCreated(created)) = &self.kind else { return self.encode_to_vec() };
        debug_assert!(!self.id.is_empty(), "a creation without an id would be decoded as the short form");
        if !created.is_found_at(&self.id, seq) || !created.is_of_its_rows() {
            return self.encode_to_vec();
        }
        let mut created = created.clone();
        let thesis = &mut created.thesis;
        thesis.sequence = None;
        for name in [&mut thesis.profile_id, &mut thesis.token_id, &mut thesis.chain] {
            name.clear();
        }
        thesis.recorded_at = thesis.recorded_at.wrapping_sub(self.created_at);
        thesis.updated_at = thesis.updated_at.wrapping_sub(thesis.created_at);
        let (id, kind) = (String::new(), Some(Kind::ThesisCreated(created)));
        let (trace, salt, leaf) = (self.trace.clone(), self.salt.clone(), self.leaf.clone());
        Self { id, created_at: self.created_at, test: self.test, kind, trace, salt, leaf }.encode_to_vec()
    }

    /// Decodes the bytes that a log has at this sequence number.
    pub fn from_stored(seq: u64, stored: impl Buf) -> Result<Self, DecodeError> {
        let mut entry = Self::decode(stored)?;
        if let Some(Kind::ThesisCreated(created)) = &mut entry.kind
            && entry.id.is_empty()
        {
            let ThesisCreated { thesis, profile, token, .. } = created;
            thesis.sequence = Some(seq);
            thesis.profile_id.clone_from(&profile.id);
            thesis.token_id.clone_from(&token.id);
            thesis.chain.clone_from(&token.chain);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::row::{Profile, Thesis, Token};

    fn creation(sequence: Option<u64>) -> Entry {
        let [profile_id, token_id, chain] = ["fp_1", "tk_1", "base"].map(str::to_owned);
        let profile = Profile { id: profile_id.clone(), ..Profile::default() };
        let token = Token { id: token_id.clone(), chain: chain.clone(), ..Token::default() };
        let thesis = Thesis {
            id: "th_1".to_owned(),
            profile_id,
            token_id,
            chain,
            sequence,
            created_at: 5,
            updated_at: 8,
            recorded_at: 12,
            ..Thesis::default()
        };
        let created = ThesisCreated { thesis, profile, token, ..ThesisCreated::default() };
        Entry { id: "evt_1".to_owned(), created_at: 10, kind: Some(Kind::ThesisCreated(created)), ..Entry::default() }
    }

    #[test]
    fn a_creation_is_stored_without_what_follows_from_its_place() {
        let entry = creation(Some(7));
        let stored = entry.stored(7);
        let short = Entry::decode(stored.as_slice()).unwrap();
        let Some(Kind::ThesisCreated(ThesisCreated { thesis, .. })) = short.kind else { panic!("another kind") };
        assert_eq!((short.id.as_str(), thesis.sequence, thesis.recorded_at, thesis.updated_at), ("", None, 2, 3));
        assert_eq!([thesis.profile_id, thesis.token_id, thesis.chain], [""; 3]);
        assert_eq!(Entry::read_whole(7, &stored), Ok(entry));
    }

    #[test]
    fn other_entries_are_stored_as_they_are() {
        let other_id = Entry { id: "evt_2".to_owned(), ..creation(Some(7)) };
        let with = |change: fn(&mut Thesis)| {
            let mut entry = creation(Some(7));
            let Some(Kind::ThesisCreated(created)) = &mut entry.kind else { panic!("another kind") };
            change(&mut created.thesis);
            entry
        };
        let others = [
            with(|thesis| thesis.profile_id = "fp_2".to_owned()),
            with(|thesis| thesis.token_id.clear()),
            with(|thesis| thesis.chain.push('2')),
        ];
        for entry in [creation(Some(8)), creation(None), other_id, Entry::filler(7, 10)].into_iter().chain(others) {
            let stored = entry.stored(7);
            assert_eq!(stored, entry.encode_to_vec());
            assert_eq!(Entry::read_whole(7, &stored), Ok(entry));
        }
    }

    #[test]
    fn an_entry_with_something_unknown_is_not_read_whole() {
        let without_kind = Entry { id: "evt_1".to_owned(), ..Entry::filler(7, 10) };
        // The field with tag 100.
        let mut with_field = Entry::filler(7, 10).encode_to_vec();
        with_field.extend([0xa0, 0x06, 0x01]);
        for stored in [without_kind.encode_to_vec(), with_field] {
            assert!(Entry::from_stored(7, stored.as_slice()).is_ok());
            assert!(Entry::read_whole(7, &stored).is_err());
        }
    }
}
