//! Signed notes and their keys (C2SP `signed-note` and `tlog-cosignature`, each with Ed25519).
//!
//! A note is a text, an empty line, and one line for each signature. The note of a checkpoint has the signature of its
//! log and may have the cosignatures of witnesses.

use std::{fmt, str::FromStr};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use sha2::{Digest as _, Sha256};

/// Maximum number of signatures in a note.
pub const MAX_SIGNATURES: usize = 64;

/// The prefix of each signature line.
const SIGNATURE_MARK: &str = "\u{2014} ";
const KEY_BYTES: usize = 32;
const SIGNATURE_BYTES: usize = 64;
const TIME_BYTES: usize = 8;
/// The last second of the year 9999. Many languages have no later time.
const MAX_TIME: u64 = 253_402_300_799;

/// The text that a key signs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// The key of a log signs the text of a note.
    Log,
    /// The key of a witness signs the text and a time.
    Witness,
}

impl KeyKind {
    /// The type of the signature.
    const fn byte(self) -> u8 {
        match self {
            Self::Log => 1,
            Self::Witness => 4,
        }
    }
}

/// A public key with its name. People compare and configure its text form, a `vkey`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifierKey {
    name: String,
    kind: KeyKind,
    public_key: [u8; KEY_BYTES],
}

/// A text is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VerifierKeyError {
    /// It has another form.
    #[error("a key has the form name+id+key, as in the log's list of keys")]
    Form,
    /// The key is of another algorithm.
    #[error("only Ed25519 keys of logs and witnesses are supported")]
    Algorithm,
    /// The id belongs to another name or key.
    #[error("the key's id does not fit to its name and its public key, so a part of it was changed")]
    Id,
}

impl VerifierKey {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The text that the key signs.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The key itself, which may have several names.
    #[must_use]
    pub fn public_key(&self) -> &[u8; KEY_BYTES] {
        &self.public_key
    }

    /// The key id, which signature lines have beside the name.
    fn id(&self) -> [u8; 4] {
        let hash = Sha256::new_with_prefix(&self.name)
            .chain_update([b'\n', self.kind.byte()])
            .chain_update(self.public_key)
            .finalize();
        [hash[0], hash[1], hash[2], hash[3]]
    }

    fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ED25519, &self.public_key).verify(message, signature).is_ok()
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut key = vec![self.kind.byte()];
        key.extend_from_slice(&self.public_key);
        write!(formatter, "{}+{}+{}", self.name, hex::encode(self.id()), BASE64_STANDARD.encode(key))
    }
}

impl FromStr for VerifierKey {
    type Err = VerifierKeyError;

    fn from_str(text: &str) -> Result<Self, VerifierKeyError> {
        let mut parts = text.splitn(3, '+');
        let (Some(name), Some(id), Some(key)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(VerifierKeyError::Form);
        };
        let key = BASE64_STANDARD.decode(key).map_err(|_| VerifierKeyError::Form)?;
        let (kind, public_key) = key.split_first().ok_or(VerifierKeyError::Form)?;
        if !is_name(name) {
            return Err(VerifierKeyError::Form);
        }
        let kind = match kind {
            1 => KeyKind::Log,
            4 => KeyKind::Witness,
            _ => return Err(VerifierKeyError::Algorithm),
        };
        let public_key = <[u8; KEY_BYTES]>::try_from(public_key).map_err(|_| VerifierKeyError::Form)?;
        let key = Self { name: name.to_owned(), kind, public_key };
        if hex::encode(key.id()) == id { Ok(key) } else { Err(VerifierKeyError::Id) }
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|letter: char| letter.is_whitespace() || letter.is_control() || letter == '+')
}

/// A private key.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// The key with this seed.
    #[must_use]
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed of 32 bytes is a key"))
    }

    /// The public key under this name, which has neither spaces nor `+`.
    #[must_use]
    pub fn verifier(&self, name: &str, kind: KeyKind) -> VerifierKey {
        debug_assert!(is_name(name), "{name} is no name of a key");
        let public_key: &[u8] = self.0.public_key().as_ref();
        let public_key = public_key.try_into().expect("an Ed25519 key has 32 bytes");
        VerifierKey { name: name.to_owned(), kind, public_key }
    }

    /// The line that signs the text of a note as a log does.
    #[must_use]
    pub fn sign(&self, name: &str, text: &str) -> String {
        let key = self.verifier(name, KeyKind::Log);
        signature_line(&key, &[self.0.sign(text.as_bytes()).as_ref()])
    }

    /// The line that cosigns the text of a checkpoint as a witness does, at a time in seconds since 1970.
    #[must_use]
    pub fn cosign(&self, name: &str, text: &str, time: u64) -> String {
        let key = self.verifier(name, KeyKind::Witness);
        let signature = self.0.sign(cosigned_message(text, time).as_bytes());
        signature_line(&key, &[&time.to_be_bytes(), signature.as_ref()])
    }
}

fn signature_line(key: &VerifierKey, parts: &[&[u8]]) -> String {
    let bytes = [&key.id()[..], &parts.concat()[..]].concat();
    format!("{SIGNATURE_MARK}{} {}\n", key.name, BASE64_STANDARD.encode(bytes))
}

fn cosigned_message(text: &str, time: u64) -> String {
    format!("cosignature/v1\ntime {time}\n{text}")
}

/// A text is no valid note.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// It has another form.
    #[error("is not a signed note")]
    Form,
    /// A signature by a known key is wrong.
    #[error("has a signature of {0} that does not fit to it, so a part of it was changed")]
    Signature(String),
}

/// A text with signatures that are not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    text: &'a str,
    signatures: Vec<Signature<'a>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Signature<'a> {
    name: &'a str,
    id: [u8; 4],
    bytes: Vec<u8>,
}

impl<'a> Note<'a> {
    /// Reads a note.
    ///
    /// # Errors
    /// Fails if the text has another form.
    pub fn parse(note: &'a str) -> Result<Self, NoteError> {
        if note.bytes().any(|byte| byte < b' ' && byte != b'\n') {
            return Err(NoteError::Form);
        }
        let split = note.rfind("\n\n").ok_or(NoteError::Form)?;
        let (text, signatures) = (&note[..=split], &note[split + 2..]);
        let lines = signatures.strip_suffix('\n').ok_or(NoteError::Form)?.split('\n');
        let signatures = lines.take(MAX_SIGNATURES + 1).map(Signature::parse).collect::<Option<Vec<_>>>();
        let signatures = signatures.filter(|signatures| signatures.len() <= MAX_SIGNATURES).ok_or(NoteError::Form)?;
        Ok(Self { text, signatures })
    }

    /// The text that is signed.
    #[must_use]
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Returns whether the key of a log signed the text.
    ///
    /// # Errors
    /// Fails if a signature by this key is wrong.
    pub fn is_signed_by(&self, key: &VerifierKey) -> Result<bool, NoteError> {
        let mut is_signed = false;
        for signature in self.signatures_of(key, KeyKind::Log) {
            if !key.verifies(self.text.as_bytes(), &signature.bytes) {
                return Err(NoteError::Signature(key.name.clone()));
            }
            is_signed = true;
        }
        Ok(is_signed)
    }

    /// The earliest time, in seconds since 1970, at which the key of a witness cosigned the text, if it did.
    ///
    /// # Errors
    /// Fails if a cosignature by this key is wrong.
    pub fn cosigned_at(&self, key: &VerifierKey) -> Result<Option<u64>, NoteError> {
        let mut earliest: Option<u64> = None;
        for signature in self.signatures_of(key, KeyKind::Witness) {
            let time = signature.time().filter(|time| {
                key.verifies(cosigned_message(self.text, *time).as_bytes(), &signature.bytes[TIME_BYTES..])
            });
            let time = time.ok_or_else(|| NoteError::Signature(key.name.clone()))?;
            earliest = Some(earliest.map_or(time, |earliest| earliest.min(time)));
        }
        Ok(earliest)
    }

    fn signatures_of(&self, key: &VerifierKey, kind: KeyKind) -> impl Iterator<Item = &Signature<'a>> {
        let id = key.id();
        let is_of = move |signature: &&Signature<'a>| signature.name == key.name && signature.id == id;
        self.signatures.iter().filter(move |signature| key.kind == kind && is_of(signature))
    }
}

impl<'a> Signature<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (name, bytes) = line.strip_prefix(SIGNATURE_MARK)?.split_once(' ')?;
        let bytes = BASE64_STANDARD.decode(bytes).ok()?;
        let (id, bytes) = bytes.split_first_chunk::<4>()?;
        (is_name(name) && !bytes.is_empty()).then(|| Self { name, id: *id, bytes: bytes.to_vec() })
    }

    /// The time of a cosignature.
    fn time(&self) -> Option<u64> {
        let time = u64::from_be_bytes(*self.bytes.first_chunk::<TIME_BYTES>()?);
        (self.bytes.len() == TIME_BYTES + SIGNATURE_BYTES && time <= MAX_TIME).then_some(time)
    }
}

#[cfg(test)]
mod tests;
