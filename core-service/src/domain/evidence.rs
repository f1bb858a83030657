//! The evidence and the leaf of a log entry.
//!
//! The leaf, which the log's tree has, is the hash of a commitment to the entry's evidence and salt. The evidence of an
//! entry that creates, edits or deletes a thesis is canonical JSON, which a receipt shows. The evidence of any other
//! entry is the hash of its stored form. When an erasure removes the text of an entry, it removes the salt too and
//! keeps the leaf.

use prost::{DecodeError, Message as _};
use sha2::{Digest as _, Sha256};
use thesis_proto::time::format_millis;
use thesis_receipts::{Evidence, EvidenceKind, Hash, ProfileEvidence, TokenEvidence, commitment, leaf_hash};

use super::{
    entry::{Entry, EntryOutline, Kind, NamedProfile, NamedToken, SequencedEntry},
    row::{Profile, Thesis, Token},
};

/// The evidence of an entry in the log of a dataset. None if the entry does not create, edit or delete a thesis, or if
/// its text was erased.
#[must_use]
pub fn evidence(dataset: &str, sequenced: &SequencedEntry) -> Option<Evidence> {
    let SequencedEntry { seq, entry } = sequenced;
    if !entry.leaf.is_empty() {
        return None;
    }
    let of = |kind: EvidenceKind, thesis: &Thesis, profile, token| Evidence {
        created_at: format_millis(thesis.created_at),
        dataset: dataset.to_owned(),
        profile,
        recorded_at: format_millis(entry.created_at),
        sequence: *seq,
        text: (kind != EvidenceKind::Deleted).then(|| thesis.text.clone()),
        thesis_id: thesis.id.clone(),
        token,
        kind,
    };
    match entry.kind.as_ref()? {
        Kind::ThesisCreated(created) => {
            let (profile, token) = (of_profile(&created.profile), of_token(&created.token));
            Some(of(EvidenceKind::Created, &created.thesis, profile, token))
        }
        Kind::ThesisEdited(edited) => {
            let (profile, token) = (of_named_profile(&edited.profile), of_named_token(&edited.token));
            Some(of(EvidenceKind::Edited, &edited.thesis, profile, token))
        }
        Kind::ThesisDeleted(deleted) => {
            let (profile, token) = (of_named_profile(&deleted.profile), of_named_token(&deleted.token));
            Some(of(EvidenceKind::Deleted, &deleted.thesis, profile, token))
        }
        Kind::TokenActivity(_) | Kind::ThesisVelocity(_) | Kind::ProfileUpdated(_) | Kind::Engagement(_) => None,
        Kind::ProfileObserved(_) | Kind::TokenObserved(_) | Kind::ThesisAwaited(_) | Kind::ArchiveFile(_) => None,
        Kind::AlertFiring(_) | Kind::AlertResolved(_) | Kind::AlertProgressed(_) => None,
    }
}

/// The fields of a stored entry that its leaf needs beside the evidence.
#[derive(Clone, PartialEq, prost::Message)]
struct LeafFields {
    #[prost(bytes = "vec", tag = "15")]
    salt: Vec<u8>,
    #[prost(bytes = "vec", tag = "16")]
    leaf: Vec<u8>,
}

/// The leaf of an entry, from its stored form. Most entries are derived, and their leaves need no content.
///
/// # Errors
/// Fails if the stored form is damaged.
pub fn leaf(dataset: &str, seq: u64, stored: &[u8]) -> Result<Hash, DecodeError> {
    let LeafFields { salt, leaf } = LeafFields::decode(stored)?;
    if let Ok(leaf) = Hash::try_from(leaf.as_slice()) {
        return Ok(leaf);
    }
    let evidence = if EntryOutline::read(stored)?.records_thesis() {
        evidence(dataset, &SequencedEntry { seq, entry: Entry::from_stored(seq, stored)? })
    } else {
        None
    };
    let commitment = match evidence {
        Some(evidence) => commitment(&salt, evidence.to_json().as_bytes()),
        None => commitment(&salt, &Sha256::digest(stored)),
    };
    Ok(leaf_hash(&commitment))
}

fn of_profile(profile: &Profile) -> ProfileEvidence {
    ProfileEvidence { handle: profile.handle.clone(), id: profile.id.clone() }
}

fn of_named_profile(profile: &NamedProfile) -> ProfileEvidence {
    ProfileEvidence { handle: profile.handle.clone(), id: profile.id.clone() }
}

fn of_token(token: &Token) -> TokenEvidence {
    TokenEvidence {
        address: token.address.clone(),
        chain: token.chain.clone(),
        id: token.id.clone(),
        symbol: token.symbol.clone(),
    }
}

fn of_named_token(token: &NamedToken) -> TokenEvidence {
    TokenEvidence {
        address: token.address.clone(),
        chain: token.chain.clone(),
        id: token.id.clone(),
        symbol: token.symbol.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        alert::AlertChange,
        entry::{
            ArchiveFile, ProfileObserved, ProfileUpdated, ThesisChanged, ThesisCreated, ThesisDeleted, ThesisEdited,
            ThesisVelocity, TokenActivity, TokenObserved,
        },
    };

    fn thesis() -> Thesis {
        Thesis { id: "th_1".to_owned(), text: "Grüße 🚀".to_owned(), created_at: 5, ..Thesis::default() }
    }

    fn named() -> (NamedProfile, NamedToken) {
        let profile = NamedProfile { id: "fp_1".to_owned(), handle: "@a".to_owned() };
        let (id, chain) = ("tk_1".to_owned(), "base".to_owned());
        (profile, NamedToken { id, chain, address: "0x1".to_owned(), symbol: "$RUN".to_owned() })
    }

    fn entry(kind: Kind) -> Entry {
        Entry { id: "evt_1".to_owned(), created_at: 1_500, salt: vec![7; 16], kind: Some(kind), ..Entry::default() }
    }

    fn created() -> Entry {
        let (named_profile, named_token) = named();
        let profile = Profile { id: named_profile.id, handle: named_profile.handle, ..Profile::default() };
        let NamedToken { id, chain, address, symbol } = named_token;
        let token = Token { id, chain, address, symbol, ..Token::default() };
        entry(Kind::ThesisCreated(ThesisCreated { thesis: thesis(), profile, token, ..ThesisCreated::default() }))
    }

    fn json(entry: Entry) -> String {
        evidence("live", &SequencedEntry { seq: 3, entry }).unwrap().to_json()
    }

    #[test]
    fn evidence_of_a_thesis_is_what_the_log_recorded() {
        let rest = r#""thesis_id":"th_1","token":{"address":"0x1","chain":"base","id":"tk_1","symbol":"$RUN"}"#;
        let first =
            r#"{"created_at":"1970-01-01T00:00:00.005Z","dataset":"live","profile":{"handle":"@a","id":"fp_1"}"#;
        let first = format!(r#"{first},"recorded_at":"1970-01-01T00:00:01.500Z","sequence":3"#);
        assert_eq!(json(created()), format!(r#"{first},"text":"Grüße 🚀",{rest},"type":"thesis.created"}}"#));
        let (profile, token) = named();
        let edited = ThesisEdited { thesis: thesis(), profile: profile.clone(), token: token.clone(), previous: None };
        let edited = json(entry(Kind::ThesisEdited(edited)));
        assert_eq!(edited, format!(r#"{first},"text":"Grüße 🚀",{rest},"type":"thesis.edited"}}"#));
        let deleted = ThesisDeleted { thesis: thesis(), profile, token, ..ThesisDeleted::default() };
        let deleted = json(entry(Kind::ThesisDeleted(deleted)));
        assert_eq!(deleted, format!(r#"{first},{rest},"type":"thesis.deleted"}}"#));
    }

    #[test]
    fn a_leaf_commits_to_evidence_and_salt() {
        let expected = leaf_hash(&commitment(&[7; 16], json(created()).as_bytes()));
        assert_eq!(leaf("live", 3, &created().stored(3)), Ok(expected));
        let other_salt = Entry { salt: vec![8; 16], ..created() };
        for other in [leaf("sandbox", 3, &created().stored(3)), leaf("live", 3, &other_salt.stored(3))] {
            assert_ne!(other, Ok(expected));
        }
    }

    #[test]
    fn a_leaf_commits_to_evidence_exactly_if_the_entry_has_some() {
        let ((profile, token), thesis) = (named(), thesis());
        let (profile_row, token_row) = (Profile { id: "fp_1".to_owned(), ..Profile::default() }, Token::default());
        let edited =
            ThesisEdited { thesis: thesis.clone(), profile: profile.clone(), token: token.clone(), previous: None };
        let deleted = ThesisDeleted { thesis: thesis.clone(), profile, token, ..ThesisDeleted::default() };
        let others = [
            Kind::TokenActivity(TokenActivity::default()),
            Kind::ThesisVelocity(ThesisVelocity::default()),
            Kind::ProfileUpdated(ProfileUpdated { profile: profile_row.clone(), ..ProfileUpdated::default() }),
            Kind::Engagement(ThesisChanged { thesis: thesis.clone() }),
            Kind::ProfileObserved(ProfileObserved { profile: profile_row }),
            Kind::TokenObserved(TokenObserved { token: token_row, ..TokenObserved::default() }),
            Kind::ThesisAwaited(ThesisChanged { thesis }),
            Kind::ArchiveFile(ArchiveFile::default()),
            Kind::AlertFiring(AlertChange::default()),
            Kind::AlertResolved(AlertChange::default()),
            Kind::AlertProgressed(AlertChange::default()),
        ];
        let filler = Entry { salt: vec![7; 16], ..Entry::filler(3, 10) };
        let with_evidence = [created(), entry(Kind::ThesisEdited(edited)), entry(Kind::ThesisDeleted(deleted))];
        let without = others.map(entry).into_iter().chain([filler]);
        let expected = with_evidence.into_iter().map(|entry| (entry, true)).chain(without.map(|entry| (entry, false)));
        for (entry, has_evidence) in expected {
            let stored = entry.stored(3);
            let found = evidence("live", &SequencedEntry { seq: 3, entry });
            assert_eq!(found.is_some(), has_evidence, "{found:?}");
            let content = found.map_or_else(|| Sha256::digest(&stored).to_vec(), |found| found.to_json().into_bytes());
            assert_eq!(leaf("live", 3, &stored), Ok(leaf_hash(&commitment(&[7; 16], &content))));
        }
    }

    #[test]
    fn damaged_entries_have_no_leaf() {
        let stored = created().stored(3);
        assert!(leaf("live", 3, &stored[..stored.len() - 1]).is_err());
        // The content of the kind with tag 4 is no message.
        assert!(leaf("live", 3, &[4 << 3 | 2, 1, 0xff]).is_err());
    }

    #[test]
    fn an_erased_entry_keeps_its_leaf_and_has_no_evidence() {
        let before = leaf("live", 3, &created().stored(3)).unwrap();
        let mut erased = Entry { salt: Vec::new(), leaf: before.to_vec(), ..created() };
        if let Some(Kind::ThesisCreated(created)) = &mut erased.kind {
            created.thesis.text.clear();
        }
        assert_eq!(leaf("live", 3, &erased.stored(3)), Ok(before));
        assert_eq!(evidence("live", &SequencedEntry { seq: 3, entry: erased }), None);
    }
}
