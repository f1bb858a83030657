//! Receipts and statements: their JSON and its verification.

mod invalid;
#[cfg(test)]
mod tests;
mod unique_names;
mod verify;

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use serde_json::{Value, error::Category};

use self::unique_names::UniqueNames;
pub use self::{
    invalid::{Invalid, Unreadable},
    verify::{Subject, VerifiedDocument, WitnessCosignature},
};
use crate::{
    canonical::{MAX_INTEGER, to_canonical},
    checkpoint::Checkpoint,
};

/// Maximum size of a document. A receipt has a few KiB.
pub const MAX_BYTES: usize = 1 << 20;
/// The `object` of a receipt.
pub const RECEIPT: &str = "receipt";
/// The `object` of a statement.
pub const STATEMENT: &str = "statement";
/// The first line of a statement's text. No log has this name, so a statement is never taken for a checkpoint.
const STATEMENT_HEADER: &str = "trade-thesis statement v1";

/// A JSON file that a user keeps as a proof.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// It proves that the log recorded an entry about a thesis.
    Receipt(Receipt),
    /// It proves which hash an archive file has.
    FileReceipt(FileReceipt),
    /// It is a signed verdict.
    Statement(Statement),
}

/// The receipt of a log entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Receipt {
    /// [`RECEIPT`].
    pub object: String,
    /// The thesis.
    pub thesis_id: String,
    /// The [`crate::Evidence`] as JSON, with the fields of later versions.
    pub evidence: Value,
    /// The salt of the commitment, in Base64.
    pub salt: String,
    /// The index of the leaf.
    #[serde(deserialize_with = "read_index")]
    pub index: u64,
    /// The [`crate::TlogProof`] as text.
    pub proof: String,
    /// The keys that signed the checkpoint, each a [`crate::VerifierKey`] as text.
    pub keys: Vec<String>,
    /// True for live data, false for test data.
    pub livemode: bool,
}

/// The receipt of the log entry that has the hash of an archive file. The field `entry` tells it from a [`Receipt`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FileReceipt {
    /// [`RECEIPT`].
    pub object: String,
    /// The day of the file.
    pub date: String,
    /// What the file has.
    pub kind: String,
    /// The SHA-256 of the file, in hexadecimal digits.
    pub sha256: String,
    /// The SHA-256 of the stored entry, in hexadecimal digits. The commitment is to its bytes.
    pub evidence: String,
    /// The stored entry, in Base64: see [`crate::FileEntry`].
    pub entry: String,
    /// The salt of the commitment, in Base64.
    pub salt: String,
    /// The index of the leaf.
    #[serde(deserialize_with = "read_index")]
    pub index: u64,
    /// The [`crate::TlogProof`] as text.
    pub proof: String,
    /// The keys that signed the checkpoint, each a [`crate::VerifierKey`] as text.
    pub keys: Vec<String>,
    /// False for data of tests.
    pub livemode: bool,
}

/// A verdict about a claim, signed by the service. Unlike a receipt it proves only that the service gave this verdict,
/// because nothing can prove that a thesis does not exist.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Statement {
    /// [`STATEMENT`].
    pub object: String,
    /// The request.
    pub claim: Value,
    /// The response.
    pub verdict: Value,
    /// The signed note of the checkpoint that was read before the verdict.
    pub checkpoint: String,
    /// The line that signs [`statement_text`].
    pub signature: String,
    /// The keys that signed both, each a [`crate::VerifierKey`] as text.
    pub keys: Vec<String>,
    /// True for live data, false for test data.
    pub livemode: bool,
}

impl Document {
    /// Reads a document.
    ///
    /// # Errors
    /// Fails if the file is not the JSON of a receipt or a statement, or if an object has two fields of one name.
    pub fn parse(json: &[u8]) -> Result<Self, Unreadable> {
        if json.len() > MAX_BYTES {
            return Err(Unreadable::Size);
        }
        let text = str::from_utf8(json).map_err(|_| Unreadable::Encoding)?;
        if text.trim().is_empty() {
            return Err(Unreadable::Empty);
        }
        // `Value` comes second. It would read the JSON in the text of a raw value, and the raw values in that JSON, until
        // the stack overflows.
        serde_json::from_str::<UniqueNames>(text).map_err(|error| match error.classify() {
            Category::Eof => Unreadable::Truncated,
            Category::Data => Unreadable::Ambiguous(error.to_string()),
            Category::Syntax | Category::Io => Unreadable::Json(error.to_string()),
        })?;
        let value: Value = serde_json::from_str(text).map_err(|error| Unreadable::Json(error.to_string()))?;
        let object = value.get("object").and_then(Value::as_str).unwrap_or_default().to_owned();
        let is_of_file = value.get("entry").is_some();
        let read = match object.as_str() {
            RECEIPT if is_of_file => serde_json::from_value(value).map(Self::FileReceipt),
            RECEIPT => serde_json::from_value(value).map(Self::Receipt),
            STATEMENT => serde_json::from_value(value).map(Self::Statement),
            _ => return Err(Unreadable::Object),
        };
        read.map_err(|error| Unreadable::Field { object, problem: error.to_string() })
    }
}

/// Reads an index that every reader of JSON keeps.
fn read_index<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let index = u64::deserialize(deserializer)?;
    if index > MAX_INTEGER {
        return Err(D::Error::custom(format_args!("the index {index} is beyond 2^53 - 1")));
    }
    Ok(index)
}

/// The note text that the signature of a statement covers: the checkpoint's lines, then claim and verdict as canonical
/// JSON. None if they have a number without a canonical form.
#[must_use]
pub fn statement_text(checkpoint: &Checkpoint, claim: &Value, verdict: &Value) -> Option<String> {
    let (claim, verdict) = (to_canonical(claim).ok()?, to_canonical(verdict).ok()?);
    Some(format!("{STATEMENT_HEADER}\n{checkpoint}{claim}\n{verdict}\n"))
}
