//! The errors of documents that cannot be read or prove nothing. Each error is a sentence for the user.

use crate::{canonical::NotCanonical, note::VerifierKeyError};

/// A file is neither a receipt nor a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// The file has no text.
    #[error("the file is empty")]
    Empty,
    /// It has more bytes than [`crate::MAX_BYTES`].
    #[error("the file is larger than 1 MiB, and a receipt has a few KiB")]
    Size,
    /// It is no UTF-8.
    #[error("the file is not a text in UTF-8")]
    Encoding,
    /// It ends too early.
    #[error("the file is cut off: its JSON has no end")]
    Truncated,
    /// Its JSON is wrong.
    #[error("the file is not JSON: {0}")]
    Json(String),
    /// Readers of JSON understand it differently.
    #[error("the file can be read in two ways: {0}")]
    Ambiguous(String),
    /// Its JSON is something else.
    #[error("the file is neither a receipt nor a statement: its field `object` names none of them")]
    Object,
    /// A field is missing, or has another type.
    #[error("the file is no complete {object}: {problem}")]
    Field {
        /// The expected kind of document.
        object: String,
        /// The field and its problem.
        problem: String,
    },
}

/// A document proves nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The evidence has no canonical form.
    #[error("the {0} {1}")]
    Number(&'static str, NotCanonical),
    /// A field of the evidence is missing, or has another type.
    #[error("the evidence is not complete: {0}")]
    Evidence(String),
    /// The salt has another form.
    #[error("the salt is not 16 bytes in Base64")]
    Salt,
    /// The proof has another form.
    #[error("the proof is not a proof in the format c2sp.org/tlog-proof@v1")]
    ProofForm,
    /// The checkpoint has another form.
    #[error("the checkpoint is not a signed note in the format of c2sp.org/tlog-checkpoint")]
    CheckpointForm,
    /// The signature of a statement has another form.
    #[error("the signature of the statement is not a signature line in the format of c2sp.org/signed-note")]
    SignatureForm,
    /// The name of the log has another form.
    #[error("the log `{0}` is not a log of this service, whose names are trade-thesis/DATASET/GENERATION")]
    Origin(String),
    /// The thesis is not the evidence's.
    #[error("the receipt names the thesis {receipt}, but its evidence is about {evidence}")]
    Thesis {
        /// In the receipt.
        receipt: String,
        /// In the evidence.
        evidence: String,
    },
    /// The entry has another form.
    #[error("the entry is not that of an archive file, in Base64")]
    Entry,
    /// The evidence is not the entry's.
    #[error("the evidence is not the SHA-256 of the entry")]
    EntryHash,
    /// The file is not the entry's.
    #[error("the receipt names the archive file {receipt}, but its entry is about {entry}")]
    File {
        /// In the receipt.
        receipt: String,
        /// In the entry.
        entry: String,
    },
    /// The index is not the proof's.
    #[error("the receipt names the index {receipt}, but its proof is for {proof}, so it is the proof of another entry")]
    Index {
        /// In the receipt.
        receipt: u64,
        /// In the proof.
        proof: u64,
    },
    /// The sequence number does not belong to the index.
    #[error(
        "the evidence has the sequence number {sequence}, but the proof is for the entry {}",
        .index.saturating_add(1)
    )]
    Sequence {
        /// In the evidence.
        sequence: u64,
        /// In the proof.
        index: u64,
    },
    /// The dataset is not the log's.
    #[error("the evidence is of the dataset `{evidence}`, but the checkpoint of the dataset `{log}`")]
    Dataset {
        /// In the evidence.
        evidence: String,
        /// In the name of the log.
        log: String,
    },
    /// `livemode` is not the dataset's.
    #[error("`livemode` is {livemode}, but the log is of the dataset `{log}`")]
    Livemode {
        /// In the document.
        livemode: bool,
        /// In the name of the log.
        log: String,
    },
    /// The tree has no such leaf.
    #[error("the proof is for the entry {}, but the checkpoint covers only {size} entries", .index.saturating_add(1))]
    Beyond {
        /// In the proof.
        index: u64,
        /// In the checkpoint.
        size: u64,
    },
    /// The proof has too many hashes or too few, whatever the evidence is.
    #[error(
        "the proof has {hashes} hashes, and no proof for the entry {} of {size} entries has that many, so it was \
         changed or is the proof of another entry",
        .index.saturating_add(1)
    )]
    Length {
        /// Their number.
        hashes: usize,
        /// In the proof.
        index: u64,
        /// In the checkpoint.
        size: u64,
    },
    /// The proof leads to another root. Whether evidence or hashes are the wrong ones cannot be known: the root that
    /// follows from both is the only thing that the checkpoint confirms.
    #[error(
        "the evidence and the salt do not belong to the hashes of the proof, which do not lead from them to the root \
         of the checkpoint: one of the three was changed, or the hashes are those of another entry"
    )]
    Root,
    /// The document has no keys, or more than [`crate::MAX_SIGNATURES`].
    #[error("the {0} lists no key, or more than 64 keys")]
    KeyCount(&'static str),
    /// A listed key cannot be read.
    #[error("the listed key `{}` is not valid: {error}", .key.escape_debug())]
    Key {
        /// The text.
        key: String,
        /// Its problem.
        error: VerifierKeyError,
    },
    /// A listed key has the name of another log.
    #[error("the key `{key}` is of another log than the checkpoint, which is of `{origin}`")]
    KeyOfOther {
        /// The name of the key.
        key: String,
        /// The name of the log.
        origin: String,
    },
    /// A listed key is the key of a witness, not of a log.
    #[error("the key `{0}` is the key of a witness, and a log signs with another kind")]
    KeyKind(String),
    /// A listed key has not signed.
    #[error("the {signed} is not signed by the listed key `{key}`")]
    Unsigned {
        /// The text that the key should have signed.
        signed: &'static str,
        /// The key.
        key: String,
    },
    /// A signature is wrong.
    #[error("the signature of the {signed} by `{key}` is wrong, so the {signed} or the signature was changed")]
    Signature {
        /// The signed text: a checkpoint or a statement.
        signed: &'static str,
        /// The name of the key.
        key: String,
    },
    /// The verifier trusts none of the listed keys.
    #[error("the {signed} is signed by none of the keys that you trust; it lists {listed}")]
    Untrusted {
        /// The signed text: a checkpoint or a statement.
        signed: &'static str,
        /// The listed keys.
        listed: String,
    },
    /// A witness that the verifier requires is missing.
    #[error("the witness `{0}` has not cosigned the checkpoint")]
    NotWitnessed(String),
    /// A key that the verifier gave for a witness is the key of a log.
    #[error("the key `{0}` is the key of a log, and a witness signs with another kind")]
    WitnessKind(String),
}
