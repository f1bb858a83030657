//! Verification of documents. It stops at the first error.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde::Deserialize as _;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{Document, FileReceipt, Invalid, RECEIPT, Receipt, STATEMENT, Statement, statement_text};
use crate::{
    canonical::to_canonical,
    checkpoint::Checkpoint,
    evidence::{Evidence, SALT_BYTES, commitment},
    file_entry::FileEntry,
    note::{KeyKind, MAX_SIGNATURES, Note, NoteError, VerifierKey},
    proof::root_of_inclusion,
    tlog_proof::TlogProof,
    tree::leaf_hash,
};

/// The name of the signed text in errors.
const CHECKPOINT: &str = "checkpoint";

/// The content of a valid document, and the keys that prove it.
#[derive(Clone, Debug, PartialEq)]
pub struct VerifiedDocument {
    /// The recorded evidence or the given verdict.
    pub subject: Subject,
    /// The checkpoint that covers it.
    pub checkpoint: Checkpoint,
    /// The dataset: `live` or `sandbox`.
    pub dataset: String,
    /// The keys that signed the checkpoint.
    pub keys: Vec<VerifierKey>,
    /// True if the verifier named a key that signed. Otherwise the document is only consistent in itself: whoever made
    /// it may have made the key.
    pub is_trusted: bool,
    /// The required witnesses, each with the time of its cosignature.
    pub witnesses: Vec<WitnessCosignature>,
}

/// The fact that a document proves.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// The log has an entry with this evidence.
    Recorded(Box<Evidence>),
    /// The log has an entry with the hash of this archive file.
    Archived {
        /// What the log recorded about the file.
        entry: FileEntry,
        /// The sequence number of the entry.
        sequence: u64,
    },
    /// The service gave this verdict about this claim.
    Stated {
        /// The request.
        claim: Value,
        /// The response.
        verdict: Value,
    },
}

/// A witness has cosigned the checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WitnessCosignature {
    /// The name of the witness.
    pub name: String,
    /// The time of its cosignature, in seconds since 1970. The log had all entries of the checkpoint by then.
    pub at: u64,
}

impl Document {
    /// Verifies a document without network access. `trusted` are keys that the verifier trusts. If there are none, the
    /// document's own keys count, and [`VerifiedDocument::is_trusted`] is false. Each of `witnesses` must have
    /// cosigned.
    ///
    /// # Errors
    /// Fails with the first error.
    pub fn verify(&self, trusted: &[VerifierKey], witnesses: &[VerifierKey]) -> Result<VerifiedDocument, Invalid> {
        match self {
            Self::Receipt(receipt) => receipt.verify(trusted, witnesses),
            Self::FileReceipt(receipt) => receipt.verify(trusted, witnesses),
            Self::Statement(statement) => statement.verify(trusted, witnesses),
        }
    }
}

impl Receipt {
    fn verify(&self, trusted: &[VerifierKey], witnesses: &[VerifierKey]) -> Result<VerifiedDocument, Invalid> {
        let canonical = to_canonical(&self.evidence).map_err(|error| Invalid::Number("evidence", error))?;
        let evidence = read_evidence(&self.evidence)?;
        let subject_fault = (self.thesis_id != evidence.thesis_id)
            .then(|| Invalid::Thesis { receipt: self.thesis_id.clone(), evidence: evidence.thesis_id.clone() });
        let entry = ProvenEntry {
            evidence: canonical.as_bytes(),
            place: Some((&evidence.dataset, evidence.sequence)),
            subject_fault,
            salt: &self.salt,
            index: self.index,
            proof: &self.proof,
            keys: &self.keys,
            livemode: self.livemode,
        };
        entry.verify(Subject::Recorded(Box::new(evidence.clone())), trusted, witnesses)
    }
}

/// Reads evidence by the names of its fields. `serde` alone also takes a list of the values for an object, and an
/// object for the name of a variant.
fn read_evidence(value: &Value) -> Result<Evidence, Invalid> {
    let evidence = Evidence::deserialize(value).map_err(|error| Invalid::Evidence(error.to_string()))?;
    let has = |name: &str, is_of_type: fn(&Value) -> bool| value.get(name).is_some_and(is_of_type);
    if has("profile", Value::is_object) && has("token", Value::is_object) && has("type", Value::is_string) {
        Ok(evidence)
    } else {
        Err(Invalid::Evidence("a field of it has another type".to_owned()))
    }
}

impl FileReceipt {
    fn verify(&self, trusted: &[VerifierKey], witnesses: &[VerifierKey]) -> Result<VerifiedDocument, Invalid> {
        let stored = BASE64_STANDARD.decode(&self.entry).map_err(|_| Invalid::Entry)?;
        let hash: [u8; 32] = Sha256::digest(&stored).into();
        if hex::encode(hash) != self.evidence {
            return Err(Invalid::EntryHash);
        }
        let file = FileEntry::read(&stored).ok_or(Invalid::Entry)?;
        // Not the names for errors, which are the same for some different files.
        let is_same = (&self.date, &self.kind, &self.sha256) == (&file.date, &file.kind, &file.sha256);
        let subject_fault = (!is_same).then(|| Invalid::File {
            receipt: file_name(&self.date, &self.kind, &self.sha256),
            entry: file_name(&file.date, &file.kind, &file.sha256),
        });
        let entry = ProvenEntry {
            evidence: &hash,
            place: None,
            subject_fault,
            salt: &self.salt,
            index: self.index,
            proof: &self.proof,
            keys: &self.keys,
            livemode: self.livemode,
        };
        let subject = Subject::Archived { entry: file, sequence: self.index.saturating_add(1) };
        entry.verify(subject, trusted, witnesses)
    }
}

/// A file as errors name it.
fn file_name(date: &str, kind: &str, sha256: &str) -> String {
    format!("{kind} of {date} with the SHA-256 {sha256}")
}

/// What a receipt says about one entry of the log, whatever the entry is about.
struct ProvenEntry<'a> {
    /// The bytes of the evidence.
    evidence: &'a [u8],
    /// Dataset and sequence number, if the evidence names them.
    place: Option<(&'a str, u64)>,
    /// Set if the receipt names another subject than its evidence.
    subject_fault: Option<Invalid>,
    salt: &'a str,
    index: u64,
    proof: &'a str,
    keys: &'a [String],
    livemode: bool,
}

impl ProvenEntry<'_> {
    fn verify(
        self,
        subject: Subject,
        trusted: &[VerifierKey],
        witnesses: &[VerifierKey],
    ) -> Result<VerifiedDocument, Invalid> {
        let salt = BASE64_STANDARD.decode(self.salt).ok().filter(|salt| salt.len() == SALT_BYTES);
        let leaf = leaf_hash(&commitment(&salt.ok_or(Invalid::Salt)?, self.evidence));
        let proof = TlogProof::parse(self.proof).ok_or(Invalid::ProofForm)?;
        let signed = SignedCheckpoint::read(&proof.checkpoint)?;
        let keys = self.keys;
        self.check_fields(&proof, &signed)?;
        let (keys, is_trusted) = signed.check_keys(keys, trusted, RECEIPT)?;
        let Checkpoint { size, root, .. } = signed.checkpoint;
        if proof.index >= size {
            return Err(Invalid::Beyond { index: proof.index, size });
        }
        match root_of_inclusion(proof.index, size, leaf, &proof.hashes) {
            None => Err(Invalid::Length { hashes: proof.hashes.len(), index: proof.index, size }),
            Some(other) if other != root => Err(Invalid::Root),
            Some(_) => signed.into_proven(subject, keys, is_trusted, witnesses),
        }
    }

    /// Checks that the parts of the receipt are about the same entry.
    fn check_fields(self, proof: &TlogProof, signed: &SignedCheckpoint<'_>) -> Result<(), Invalid> {
        if let Some(fault) = self.subject_fault {
            return Err(fault);
        }
        if self.index != proof.index {
            return Err(Invalid::Index { receipt: self.index, proof: proof.index });
        }
        if let Some((dataset, sequence)) = self.place {
            if sequence.checked_sub(1) != Some(proof.index) {
                return Err(Invalid::Sequence { sequence, index: proof.index });
            }
            if dataset != signed.dataset {
                let (evidence, log) = (dataset.to_owned(), signed.dataset.to_owned());
                return Err(Invalid::Dataset { evidence, log });
            }
        }
        signed.check_livemode(self.livemode)
    }
}

impl Statement {
    fn verify(&self, trusted: &[VerifierKey], witnesses: &[VerifierKey]) -> Result<VerifiedDocument, Invalid> {
        for (name, value) in [("claim", &self.claim), ("verdict", &self.verdict)] {
            to_canonical(value).map_err(|error| Invalid::Number(name, error))?;
        }
        let signed = SignedCheckpoint::read(&self.checkpoint)?;
        signed.check_livemode(self.livemode)?;
        let (keys, is_trusted) = signed.check_keys(&self.keys, trusted, STATEMENT)?;
        let text = statement_text(&signed.checkpoint, &self.claim, &self.verdict).ok_or(Invalid::SignatureForm)?;
        let note = format!("{text}\n{}", self.signature);
        let note = Note::parse(&note).ok().filter(|note| note.text() == text).ok_or(Invalid::SignatureForm)?;
        for key in &keys {
            check_signature(&note, key, STATEMENT)?;
        }
        let subject = Subject::Stated { claim: self.claim.clone(), verdict: self.verdict.clone() };
        signed.into_proven(subject, keys, is_trusted, witnesses)
    }
}

/// A checkpoint whose signatures are not all verified yet.
struct SignedCheckpoint<'a> {
    note: Note<'a>,
    checkpoint: Checkpoint,
    dataset: &'a str,
}

impl<'a> SignedCheckpoint<'a> {
    fn read(note: &'a str) -> Result<Self, Invalid> {
        let note = Note::parse(note).map_err(|_| Invalid::CheckpointForm)?;
        let checkpoint = Checkpoint::parse(note.text()).ok_or(Invalid::CheckpointForm)?;
        let origin = note.text().lines().next().unwrap_or_default();
        let dataset = match origin.split('/').collect::<Vec<_>>()[..] {
            ["trade-thesis", dataset @ ("live" | "sandbox"), generation] if !generation.is_empty() => dataset,
            _ => return Err(Invalid::Origin(origin.to_owned())),
        };
        Ok(Self { note, checkpoint, dataset })
    }

    fn check_livemode(&self, livemode: bool) -> Result<(), Invalid> {
        if livemode != (self.dataset == "live") {
            return Err(Invalid::Livemode { livemode, log: self.dataset.to_owned() });
        }
        Ok(())
    }

    /// Checks that each listed key signed the checkpoint, and that the verifier trusts one of them, if it named any.
    /// Returns the keys, and whether one is trusted.
    fn check_keys(
        &self,
        listed: &[String],
        trusted: &[VerifierKey],
        document: &'static str,
    ) -> Result<(Vec<VerifierKey>, bool), Invalid> {
        // The number of signature checks grows with the number of keys.
        if listed.is_empty() || listed.len() > MAX_SIGNATURES {
            return Err(Invalid::KeyCount(document));
        }
        let mut keys = Vec::new();
        for text in listed {
            let key: VerifierKey = text.parse().map_err(|error| Invalid::Key { key: text.clone(), error })?;
            let (name, origin) = (key.name().to_owned(), &self.checkpoint.origin);
            if key.kind() != KeyKind::Log {
                return Err(Invalid::KeyKind(name));
            }
            if name != *origin {
                return Err(Invalid::KeyOfOther { key: name, origin: origin.clone() });
            }
            check_signature(&self.note, &key, CHECKPOINT)?;
            keys.push(key);
        }
        let is_trusted = trusted.iter().any(|key| keys.contains(key));
        if !is_trusted && !trusted.is_empty() {
            return Err(Invalid::Untrusted { signed: CHECKPOINT, listed: listed.join(", ") });
        }
        Ok((keys, is_trusted))
    }

    fn into_proven(
        self,
        subject: Subject,
        keys: Vec<VerifierKey>,
        is_trusted: bool,
        witnesses: &[VerifierKey],
    ) -> Result<VerifiedDocument, Invalid> {
        let witnesses = witnesses.iter().map(|key| self.check_witness(key)).collect::<Result<Vec<_>, _>>()?;
        let dataset = self.dataset.to_owned();
        Ok(VerifiedDocument { subject, checkpoint: self.checkpoint, dataset, keys, is_trusted, witnesses })
    }

    fn check_witness(&self, key: &VerifierKey) -> Result<WitnessCosignature, Invalid> {
        let name = key.name().to_owned();
        if key.kind() != KeyKind::Witness {
            return Err(Invalid::WitnessKind(name));
        }
        match self.note.cosigned_at(key) {
            Ok(Some(at)) => Ok(WitnessCosignature { name, at }),
            Ok(None) => Err(Invalid::NotWitnessed(name)),
            Err(_) => Err(Invalid::Signature { signed: CHECKPOINT, key: name }),
        }
    }
}

fn check_signature(note: &Note<'_>, key: &VerifierKey, signed: &'static str) -> Result<(), Invalid> {
    match note.is_signed_by(key) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Invalid::Unsigned { signed, key: key.to_string() }),
        Err(NoteError::Form | NoteError::Signature(_)) => {
            Err(Invalid::Signature { signed, key: key.name().to_owned() })
        }
    }
}
