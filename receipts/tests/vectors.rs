//! The test vectors of `docs/receipts`, which an implementation in another language made:
//! `tests/clients/receipt_vectors.py`.

#![expect(clippy::unwrap_used, reason = "a test ends where something is wrong")]

use std::{collections::BTreeMap, fs, path::PathBuf};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::Value;
use thesis_receipts::{
    Document, GrowingTree, Hash, Invalid, ProofPlan, TileId, VerifierKey, leaf_hash, node_hash, root_of_inclusion,
    to_canonical, verify_consistency,
};

fn file(path: &str) -> Vec<u8> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/receipts"));
    fs::read(folder.join(path)).unwrap()
}

fn vectors() -> Value {
    serde_json::from_slice(&file("vectors.json")).unwrap()
}

fn rows(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn keys(value: &Value) -> Vec<VerifierKey> {
    rows(value).iter().map(|key| key.as_str().unwrap().parse().unwrap()).collect()
}

fn hash(value: &Value) -> Hash {
    BASE64_STANDARD.decode(value.as_str().unwrap()).unwrap().try_into().unwrap()
}

fn hashes(value: &Value) -> Vec<Hash> {
    rows(value).iter().map(hash).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// The word of the vectors for an error.
fn error_word(error: &Invalid) -> &'static str {
    match error {
        Invalid::Number(..) => "number",
        Invalid::Evidence(_) => "evidence",
        Invalid::Salt => "salt",
        Invalid::ProofForm | Invalid::CheckpointForm | Invalid::SignatureForm => "form",
        Invalid::Origin(_) => "origin",
        Invalid::Entry | Invalid::EntryHash => "entry",
        Invalid::Thesis { .. } => "thesis",
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

/// Verifies a document. Returns the word for its error; none if it is valid.
fn verify(document: &[u8], trusted: &[VerifierKey], witnesses: &[VerifierKey]) -> Option<&'static str> {
    let Ok(document) = Document::parse(document) else { return Some("unreadable") };
    document.verify(trusted, witnesses).err().as_ref().map(error_word)
}

#[test]
fn documents_are_judged_as_the_vectors_say() {
    let vectors = vectors();
    let documents = rows(&vectors["documents"]);
    assert!(documents.len() > 50);
    for row in documents {
        let path = row["file"].as_str().unwrap();
        let found = verify(&file(path), &keys(&row["trusted"]), &keys(&row["witnesses"]));
        assert_eq!(found, row["wrong"].as_str(), "{path}");
    }
}

#[test]
fn values_have_the_canonical_json_of_the_vectors() {
    let vectors = vectors();
    for row in rows(&vectors["canonical"]) {
        assert_eq!(to_canonical(&row["value"]).unwrap(), row["json"].as_str().unwrap());
    }
}

#[test]
fn trees_have_the_roots_and_proofs_of_the_vectors() {
    let vectors = vectors();
    let tree = &vectors["tree"];
    let (leaves, roots) = (hashes(&tree["leaves"]), hashes(&tree["roots"]));
    assert_eq!(node_hash(&leaves[0], &leaves[1]), hash(&tree["node"]));
    let mut growing = GrowingTree::default();
    for (content, (leaf, root)) in (0u8..).zip(leaves.iter().zip(&roots)) {
        assert_eq!((leaf_hash(&[content]), growing.root()), (*leaf, *root));
        growing.push(*leaf);
    }
    assert_eq!(growing.root(), roots[leaves.len()]);
    let tiles: BTreeMap<TileId, Vec<u8>> = growing.take_changed().into_iter().collect();
    for row in rows(&tree["inclusion"]) {
        let (index, size, proof) = (number(&row["index"]), number(&row["size"]), hashes(&row["proof"]));
        let (leaf, root) = (leaves[usize::try_from(index).unwrap()], roots[usize::try_from(size).unwrap()]);
        assert_eq!(ProofPlan::inclusion(index, size).unwrap().hashes(&tiles).unwrap(), proof, "{row}");
        assert_eq!(root_of_inclusion(index, size, leaf, &proof), Some(root), "{row}");
    }
    for row in rows(&tree["consistency"]) {
        let (old, new, proof) = (number(&row["old"]), number(&row["new"]), hashes(&row["proof"]));
        let [old_root, new_root] = [old, new].map(|size| roots[usize::try_from(size).unwrap()]);
        assert_eq!(ProofPlan::consistency(old, new).unwrap().hashes(&tiles).unwrap(), proof, "{row}");
        assert!(verify_consistency((old, &old_root), (new, &new_root), &proof), "{row}");
    }
}
