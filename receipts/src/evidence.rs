//! Evidence: what a leaf commits to.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::tree::Hash;

/// Length of a salt.
pub const SALT_BYTES: usize = 16;

/// The commitment to evidence, which is the content of a leaf. Nobody can guess the evidence from it without the salt.
#[must_use]
pub fn commitment(salt: &[u8], evidence: &[u8]) -> Hash {
    Sha256::new_with_prefix(salt).chain_update(evidence).finalize().into()
}

/// What happened to a thesis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EvidenceKind {
    /// It was posted.
    #[serde(rename = "thesis.created")]
    Created,
    /// Its text changed.
    #[serde(rename = "thesis.edited")]
    Edited,
    /// It was deleted.
    #[serde(rename = "thesis.deleted")]
    Deleted,
}

/// What a log recorded about a thesis. Another version may add fields: they are part of the canonical JSON, and readers
/// ignore those that they do not know. The fields stand in the order of canonical JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// When it was posted, as the platform says: ISO 8601.
    pub created_at: String,
    /// The dataset of the log: `live` or `sandbox`.
    pub dataset: String,
    /// The author.
    pub profile: ProfileEvidence,
    /// When the service recorded this: ISO 8601.
    pub recorded_at: String,
    /// The sequence number of the log entry.
    pub sequence: u64,
    /// The text; none of a deletion.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<String>,
    /// The thesis.
    pub thesis_id: String,
    /// The token.
    pub token: TokenEvidence,
    /// What happened.
    #[serde(rename = "type")]
    pub kind: EvidenceKind,
}

/// The author of a thesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProfileEvidence {
    /// The handle at that time.
    pub handle: String,
    /// The id, with the prefix `fp_`.
    pub id: String,
}

/// The token of a thesis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenEvidence {
    /// The address.
    pub address: String,
    /// The chain.
    pub chain: String,
    /// The id, with the prefix `tk_`.
    pub id: String,
    /// The symbol at that time.
    pub symbol: String,
}

impl Evidence {
    /// The canonical JSON. It needs no intermediate value, because the fields stand in its order.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and whole numbers have a JSON form")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canonical::to_canonical;

    #[test]
    fn its_json_is_canonical() {
        let mut evidence = Evidence {
            created_at: "2026-01-02T03:04:05.678Z".to_owned(),
            dataset: "live".to_owned(),
            profile: ProfileEvidence { handle: "@a".to_owned(), id: "fp_1".to_owned() },
            recorded_at: "2026-01-02T03:04:06.000Z".to_owned(),
            sequence: 7,
            text: Some("Grüße, \"مرحبا\" 🚀\u{1}\n\u{2028}".to_owned()),
            thesis_id: "th_1".to_owned(),
            token: TokenEvidence {
                address: "0x1".to_owned(),
                chain: "base".to_owned(),
                id: "tk_1".to_owned(),
                symbol: "RUN".to_owned(),
            },
            kind: EvidenceKind::Created,
        };
        let canonical = |evidence: &Evidence| to_canonical(&serde_json::to_value(evidence).unwrap()).unwrap();
        assert_eq!(evidence.to_json(), canonical(&evidence));
        assert!(evidence.to_json().contains(r#""text":"Grüße, \"مرحبا\" 🚀\u0001\n"#));
        evidence.text = None;
        assert_eq!(evidence.to_json(), canonical(&evidence));
        assert!(!evidence.to_json().contains("text"));
    }

    #[test]
    fn a_commitment_is_the_hash_of_salt_and_evidence() {
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex::encode(commitment(b"a", b"bc")), expected);
    }
}
