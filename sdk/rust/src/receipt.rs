//! Verification of receipts without network access, by the crate `thesis-receipts`, which the service uses too.

use thesis_receipts::{Document, Invalid, Unreadable, VerifiedDocument, VerifierKey, VerifierKeyError};

/// The reason why a receipt or a statement proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiptError {
    /// The text is not a receipt or statement.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A check failed.
    #[error("the receipt is not valid: {0}")]
    Invalid(#[from] Invalid),
    /// A key that the caller gave is malformed.
    #[error("{key:?}: {error}")]
    Key {
        /// The key.
        key: String,
        /// Its fault.
        error: VerifierKeyError,
    },
}

impl ReceiptError {
    /// A word of the table in the guide "Receipts", such as `root` or `signature`; none for a key of the caller.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::Unreadable(_) => Some("unreadable"),
            Self::Invalid(invalid) => Some(word(invalid)),
            Self::Key { .. } => None,
        }
    }
}

fn word(invalid: &Invalid) -> &'static str {
    match invalid {
        Invalid::Number(..) => "number",
        Invalid::Evidence(_) => "evidence",
        Invalid::Salt => "salt",
        Invalid::ProofForm | Invalid::CheckpointForm | Invalid::SignatureForm => "form",
        Invalid::Origin(_) => "origin",
        Invalid::Thesis { .. } => "thesis",
        Invalid::Entry | Invalid::EntryHash => "entry",
        Invalid::File { .. } => "file",
        Invalid::Index { .. } => "index",
        Invalid::Sequence { .. } => "sequence",
        Invalid::Dataset { .. } => "dataset",
        Invalid::Livemode { .. } => "livemode",
        Invalid::Beyond { .. } => "beyond",
        Invalid::Length { .. } => "length",
        Invalid::Root => "root",
        Invalid::KeyCount(_) => "keys",
        Invalid::Key { .. } | Invalid::KeyOfOther { .. } | Invalid::KeyKind(_) => "key",
        Invalid::Unsigned { .. } => "unsigned",
        Invalid::Signature { .. } => "signature",
        Invalid::Untrusted { .. } => "untrusted",
        Invalid::NotWitnessed(_) | Invalid::WitnessKind(_) => "witness",
    }
}

/// Checks the JSON of a receipt or a statement without network access.
///
/// `trusted` are keys of the service that you got from elsewhere, such as those of
/// [`Client::list_log_keys`](crate::Client::list_log_keys) when you first met it. Without any, the document's own keys
/// count, and [`VerifiedDocument::is_trusted`] is false. Each of `witnesses` must have cosigned.
///
/// # Errors
/// Fails with the first fault.
pub fn verify_receipt(json: &[u8], trusted: &[&str], witnesses: &[&str]) -> Result<VerifiedDocument, ReceiptError> {
    let document = Document::parse(json)?;
    Ok(document.verify(&read_keys(trusted)?, &read_keys(witnesses)?)?)
}

fn read_keys(texts: &[&str]) -> Result<Vec<VerifierKey>, ReceiptError> {
    let read =
        |text: &&str| text.parse::<VerifierKey>().map_err(|error| ReceiptError::Key { key: (*text).to_owned(), error });
    texts.iter().map(read).collect()
}
