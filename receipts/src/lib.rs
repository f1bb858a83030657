//! Receipts: proofs that a log recorded an entry.
//!
//! A dataset's log has one Merkle tree (RFC 9162, SHA-256). Leaf `n` belongs to log entry `n + 1`. The leaf is the hash
//! of a commitment, `SHA-256(salt ‖ evidence)`. The [`Evidence`] is the data that the entry records about a thesis.
//! Whoever has salt and evidence can compute the commitment, and nobody can guess the evidence from it. The service
//! signs checkpoints: size and root of the tree. A [`Receipt`] holds salt, evidence, and the proof that leads from the
//! leaf to a signed checkpoint. A [`Statement`] is a signed verdict with the checkpoint up to which it holds. A
//! witness, which others run, cosigns a checkpoint if it continues the last one. [`Document::verify`] checks receipts
//! and statements, without network access.
//!
//! The formats are those of C2SP (c2sp.org): `signed-note`, `tlog-checkpoint`, `tlog-proof`, `tlog-tiles`,
//! `tlog-cosignature`, `tlog-witness`. Service, verifiers and witnesses share this crate. It does no input or output.
//!
//! These formats are written here, although other crates have parts of them. `tlog_tiles` 0.2 reads hashes by a trait
//! that cannot wait for a store, and gives one error for a proof of the wrong length and one with another root; it has
//! neither `tlog-proof` nor `tlog-witness`. `signed_note` 0.2 knows the keys of logs but no cosignatures, verifies only
//! the first signature of a key, and brings `ed25519-dalek` beside `ring`, which the service needs anyway.
//! `serde_json_canonicalizer` 0.4 and `serde_jcs` 0.2 write each number as a double, so they round 2^53 + 1, and a
//! receipt with that number must be refused. `tests/clients` checks the formats with libraries of Python and Go.

mod add_checkpoint;
mod canonical;
mod checkpoint;
mod document;
mod evidence;
mod file_entry;
mod growing_tree;
mod note;
mod plan;
mod proof;
mod tile;
mod tlog_proof;
mod tree;

pub use self::{
    add_checkpoint::{AddCheckpoint, WitnessRefusal},
    canonical::{NotCanonical, to_canonical},
    checkpoint::Checkpoint,
    document::{
        Document, FileReceipt, Invalid, MAX_BYTES, RECEIPT, Receipt, STATEMENT, Statement, Subject, Unreadable,
        VerifiedDocument, WitnessCosignature, statement_text,
    },
    evidence::{Evidence, EvidenceKind, ProfileEvidence, SALT_BYTES, TokenEvidence, commitment},
    file_entry::FileEntry,
    growing_tree::GrowingTree,
    note::{KeyKind, MAX_SIGNATURES, Note, NoteError, SigningKey, VerifierKey, VerifierKeyError},
    plan::ProofPlan,
    proof::{root_of_inclusion, verify_consistency},
    tile::{TILE_BYTES, TILE_WIDTH, TileId},
    tlog_proof::TlogProof,
    tree::{EMPTY_ROOT, HASH_BYTES, Hash, leaf_hash, node_hash},
};
