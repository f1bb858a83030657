use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::{
    evidence::{Evidence, EvidenceKind, ProfileEvidence, TokenEvidence, commitment},
    file_entry::FileEntry,
    growing_tree::GrowingTree,
    note::{KeyKind, MAX_SIGNATURES, SigningKey, VerifierKey},
    plan::ProofPlan,
    tlog_proof::TlogProof,
    tree::leaf_hash,
};

const ORIGIN: &str = "trade-thesis/live/gen_1";
const SALT: [u8; 16] = [9; 16];
/// Place and size of the sample.
const INDEX: u64 = 300;
const SIZE: u64 = 1_000;

fn signing() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

fn log_key() -> VerifierKey {
    signing().verifier(ORIGIN, KeyKind::Log)
}

fn witness() -> SigningKey {
    SigningKey::from_seed(&[2; 32])
}

fn evidence(text: &str) -> Evidence {
    Evidence {
        created_at: "2026-01-02T03:04:05.678Z".to_owned(),
        dataset: "live".to_owned(),
        profile: ProfileEvidence { handle: "@a".to_owned(), id: "fp_1".to_owned() },
        recorded_at: "2026-01-02T03:04:06.000Z".to_owned(),
        sequence: INDEX + 1,
        text: Some(text.to_owned()),
        thesis_id: "th_1".to_owned(),
        token: TokenEvidence {
            address: "0x1".to_owned(),
            chain: "base".to_owned(),
            id: "tk_1".to_owned(),
            symbol: "RUN".to_owned(),
        },
        kind: EvidenceKind::Created,
    }
}

fn checkpoint_note(checkpoint: &Checkpoint) -> String {
    let text = checkpoint.to_string();
    let (log, witness) = (signing().sign(ORIGIN, &text), witness().cosign("w.example", &text, 1_767_323_047));
    format!("{text}\n{log}{witness}")
}

/// The proof that a log has an entry with this evidence.
fn proof_of(evidence: &[u8]) -> String {
    let leaf = leaf_hash(&commitment(&SALT, evidence));
    let mut tree = GrowingTree::default();
    for index in 0..SIZE {
        tree.push(if index == INDEX { leaf } else { leaf_hash(&index.to_be_bytes()) });
    }
    let tiles: BTreeMap<_, _> = tree.take_changed().into_iter().collect();
    let hashes = ProofPlan::inclusion(INDEX, SIZE).unwrap().hashes(&tiles).unwrap();
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: SIZE, root: tree.root() };
    TlogProof { index: INDEX, hashes, checkpoint: checkpoint_note(&checkpoint) }.to_string()
}

/// The receipt of evidence that may have fields which only a later version knows.
fn receipt_of(evidence: Value) -> Receipt {
    let proof = proof_of(to_canonical(&evidence).unwrap().as_bytes());
    Receipt {
        object: RECEIPT.to_owned(),
        thesis_id: "th_1".to_owned(),
        evidence,
        salt: BASE64_STANDARD.encode(SALT),
        index: INDEX,
        proof,
        keys: vec![log_key().to_string()],
        livemode: true,
    }
}

fn receipt(text: &str) -> Receipt {
    receipt_of(serde_json::to_value(evidence(text)).unwrap())
}

fn statement() -> Statement {
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: 5, root: [3; 32] };
    let (claim, verdict) = (json!({"handle": "@a"}), json!({"verified": false, "checks": {"identity": true}}));
    let text = statement_text(&checkpoint, &claim, &verdict).unwrap();
    Statement {
        object: STATEMENT.to_owned(),
        claim,
        verdict,
        checkpoint: checkpoint_note(&checkpoint),
        signature: signing().sign(ORIGIN, &text),
        keys: vec![log_key().to_string()],
        livemode: true,
    }
}

fn read(document: &impl Serialize) -> Document {
    Document::parse(&serde_json::to_vec(document).unwrap()).unwrap()
}

fn refusal(document: &impl Serialize) -> Invalid {
    read(document).verify(&[log_key()], &[]).unwrap_err()
}

fn file_entry() -> FileEntry {
    FileEntry {
        date: "2026-01-31".to_owned(),
        kind: "theses".to_owned(),
        position: INDEX,
        rows: 2,
        bytes: 9,
        sha256: "00ff".to_owned(),
        recorded_at: 1_769_904_300_000,
    }
}

/// The receipt of an entry, whose stored form is `stored`.
fn file_receipt_of(stored: &[u8]) -> FileReceipt {
    let hash: [u8; 32] = Sha256::digest(stored).into();
    let FileEntry { date, kind, sha256, .. } = file_entry();
    FileReceipt {
        object: RECEIPT.to_owned(),
        date,
        kind,
        sha256,
        evidence: hex::encode(hash),
        entry: BASE64_STANDARD.encode(stored),
        salt: BASE64_STANDARD.encode(SALT),
        index: INDEX,
        proof: proof_of(&hash),
        keys: vec![log_key().to_string()],
        livemode: true,
    }
}

#[test]
fn the_receipt_of_a_file_proves_its_hash() {
    let receipt = file_receipt_of(&file_entry().stored(&SALT));
    let proven = read(&receipt).verify(&[log_key()], &[]).unwrap();
    assert_eq!(proven.subject, Subject::Archived { entry: file_entry(), sequence: INDEX + 1 });

    for named in [
        FileReceipt { kind: "events".to_owned(), ..receipt.clone() },
        FileReceipt { date: "2026-01-30".to_owned(), ..receipt.clone() },
        FileReceipt { sha256: "00fe".to_owned(), ..receipt.clone() },
    ] {
        assert!(matches!(refusal(&named), Invalid::File { .. }), "{named:?}");
    }
    assert!(matches!(refusal(&FileReceipt { index: 3, ..receipt.clone() }), Invalid::Index { .. }));
    assert!(matches!(refusal(&FileReceipt { livemode: false, ..receipt.clone() }), Invalid::Livemode { .. }));
    assert_eq!(refusal(&FileReceipt { entry: "%".to_owned(), ..receipt.clone() }), Invalid::Entry);
    assert_eq!(refusal(&FileReceipt { evidence: "00".to_owned(), ..receipt.clone() }), Invalid::EntryHash);
    // An entry of another kind, which the log has.
    assert_eq!(refusal(&file_receipt_of(&[0x10, 5])), Invalid::Entry);

    // An entry that the log does not have, with its own hash.
    let other = FileEntry { sha256: "00fe".to_owned(), ..file_entry() };
    let other = FileReceipt { sha256: "00fe".to_owned(), ..file_receipt_of(&other.stored(&SALT)) };
    let forged = FileReceipt { proof: receipt.proof.clone(), ..other };
    assert_eq!(refusal(&forged), Invalid::Root);
}

#[test]
fn a_receipt_proves_its_evidence() {
    for text in ["", "Grüße an Łukasz", "🚀🚀 \u{202e}مرحبا بالعالم", &"ß".repeat(2_000), "\"\\\u{8}\u{1f}\u{2028}\n"]
    {
        let proven = read(&receipt(text)).verify(&[log_key()], &[]).unwrap();
        assert_eq!(proven.subject, Subject::Recorded(Box::new(evidence(text))));
        assert_eq!((proven.checkpoint.size, proven.dataset.as_str(), proven.is_trusted), (SIZE, "live", true));
        assert_eq!((proven.keys, proven.witnesses), (vec![log_key()], vec![]));
    }
}

#[test]
fn fields_of_a_later_version_are_covered_too() {
    let mut later = serde_json::to_value(evidence("text")).unwrap();
    later["later"] = json!({"b": [1], "a": null});
    let mut receipt = receipt_of(later);
    assert!(read(&receipt).verify(&[log_key()], &[]).is_ok());
    receipt.evidence["later"]["a"] = json!(0);
    assert_eq!(refusal(&receipt), Invalid::Root);
}

#[test]
fn without_a_trusted_key_a_document_is_only_consistent_in_itself() {
    assert!(!read(&receipt("text")).verify(&[], &[]).unwrap().is_trusted);
    let other = SigningKey::from_seed(&[3; 32]).verifier(ORIGIN, KeyKind::Log);
    let untrusted = Invalid::Untrusted { signed: "checkpoint", listed: log_key().to_string() };
    assert_eq!(read(&receipt("text")).verify(std::slice::from_ref(&other), &[]), Err(untrusted));
    assert!(read(&receipt("text")).verify(&[other, log_key()], &[]).unwrap().is_trusted);
}

#[test]
fn each_required_witness_must_have_cosigned() {
    let witness_key = |seed: u8, kind| SigningKey::from_seed(&[seed; 32]).verifier("w.example", kind);
    let document = read(&receipt("text"));
    let verify = |witness: VerifierKey| document.verify(&[log_key()], &[witness]);
    let witnessed = WitnessCosignature { name: "w.example".to_owned(), at: 1_767_323_047 };
    assert_eq!(verify(witness_key(2, KeyKind::Witness)).unwrap().witnesses, [witnessed]);
    let name = || "w.example".to_owned();
    assert_eq!(verify(witness_key(3, KeyKind::Witness)), Err(Invalid::NotWitnessed(name())));
    assert_eq!(verify(witness_key(2, KeyKind::Log)), Err(Invalid::WitnessKind(name())));
}

#[test]
fn a_changed_receipt_is_refused_with_what_is_wrong() {
    let changed = |change: &dyn Fn(&mut Receipt)| {
        let mut receipt = receipt("text");
        change(&mut receipt);
        refusal(&receipt)
    };
    for (field, value) in [
        ("text", json!("texT")),
        ("text", Value::Null),
        ("created_at", json!("2026-01-02T03:04:05.677Z")),
        ("profile", json!({"id": "fp_1", "handle": "@b"})),
        ("type", json!("thesis.edited")),
        ("more", json!(1)),
    ] {
        assert_eq!(changed(&|receipt| receipt.evidence[field] = value.clone()), Invalid::Root, "{field}");
    }
    let evidence = |field: &'static str, value: Value| changed(&|receipt| receipt.evidence[field] = value.clone());
    assert!(matches!(evidence("sequence", json!(302)), Invalid::Sequence { sequence: 302, index: INDEX }));
    assert!(matches!(evidence("sequence", json!(0)), Invalid::Sequence { sequence: 0, index: INDEX }));
    assert!(matches!(evidence("sequence", json!(0.5)), Invalid::Number("evidence", _)));
    assert!(matches!(evidence("dataset", json!("sandbox")), Invalid::Dataset { .. }));
    assert!(matches!(evidence("thesis_id", json!("th_2")), Invalid::Thesis { .. }));
    assert!(matches!(evidence("token", json!({})), Invalid::Evidence(_)));
    assert!(matches!(changed(&|receipt| receipt.thesis_id = "th_2".to_owned()), Invalid::Thesis { .. }));
    assert!(matches!(changed(&|receipt| receipt.index = 301), Invalid::Index { receipt: 301, proof: INDEX }));
    assert!(matches!(changed(&|receipt| receipt.livemode = false), Invalid::Livemode { livemode: false, .. }));
    assert_eq!(changed(&|receipt| receipt.salt = BASE64_STANDARD.encode([8; 16])), Invalid::Root);
    assert_eq!(changed(&|receipt| receipt.salt = BASE64_STANDARD.encode([9; 15])), Invalid::Salt);
    assert_eq!(changed(&|receipt| receipt.salt.push('=')), Invalid::Salt);
}

#[test]
fn a_changed_proof_is_refused_with_what_is_wrong() {
    let changed = |change: &dyn Fn(&mut TlogProof)| {
        let mut receipt = receipt("text");
        let mut proof = TlogProof::parse(&receipt.proof).unwrap();
        change(&mut proof);
        receipt.proof = proof.to_string();
        refusal(&receipt)
    };
    let signature = || Invalid::Signature { signed: "checkpoint", key: ORIGIN.to_owned() };
    let replaced = |from: &'static str, to: &'static str| {
        changed(&|proof| proof.checkpoint = proof.checkpoint.replacen(from, to, 1))
    };
    assert_eq!(changed(&|proof| proof.hashes[3][0] ^= 1), Invalid::Root);
    assert_eq!(changed(&|proof| proof.hashes.swap(0, 1)), Invalid::Root);
    let length = |hashes| Invalid::Length { hashes, index: INDEX, size: SIZE };
    assert_eq!(changed(&|proof| proof.hashes.truncate(3)), length(3));
    assert_eq!(changed(&|proof| proof.hashes.push([0; 32])), length(11));
    assert_eq!(replaced("\n1000\n", "\n1001\n"), signature());
    assert_eq!(replaced("\n1000\n", "\n01000\n"), Invalid::CheckpointForm);
    assert_eq!(replaced("\n\n", "\n"), Invalid::CheckpointForm);
    assert_eq!(
        replaced("gen_1\n", "gen_2\n"),
        Invalid::KeyOfOther { key: ORIGIN.to_owned(), origin: "trade-thesis/live/gen_2".to_owned() }
    );
    assert_eq!(
        replaced("/live/", "/sandbox/"),
        Invalid::Dataset { evidence: "live".to_owned(), log: "sandbox".to_owned() }
    );
    for other in ["/", "/other/"] {
        assert_eq!(replaced("/live/", other), Invalid::Origin(format!("trade-thesis{other}gen_1")));
    }
    let unsigned = Invalid::Unsigned { signed: "checkpoint", key: log_key().to_string() };
    assert_eq!(replaced("\u{2014} trade-thesis", "\u{2014} other"), unsigned);
    let mut receipt = receipt("text");
    receipt.proof.truncate(40);
    assert_eq!(refusal(&receipt), Invalid::ProofForm);
}

#[test]
fn a_proof_beyond_the_checkpoint_is_refused() {
    let mut receipt = receipt("text");
    let mut proof = TlogProof::parse(&receipt.proof).unwrap();
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: INDEX, root: [3; 32] };
    proof.checkpoint = checkpoint_note(&checkpoint);
    receipt.proof = proof.to_string();
    assert_eq!(refusal(&receipt), Invalid::Beyond { index: INDEX, size: INDEX });
}

#[test]
fn every_listed_key_must_be_one_that_signed() {
    let with = |keys: &[String]| {
        let mut receipt = receipt("text");
        receipt.keys = keys.to_vec();
        refusal(&receipt)
    };
    let key = log_key().to_string();
    let other = SigningKey::from_seed(&[3; 32]);
    assert_eq!(with(&[]), Invalid::KeyCount("receipt"));
    assert_eq!(with(&vec![key.clone(); MAX_SIGNATURES + 1]), Invalid::KeyCount("receipt"));
    let unsigned = other.verifier(ORIGIN, KeyKind::Log).to_string();
    assert_eq!(with(&[key.clone(), unsigned.clone()]), Invalid::Unsigned { signed: "checkpoint", key: unsigned });
    assert!(matches!(with(&[key.replace("live", "lave")]), Invalid::Key { .. }));
    let elsewhere = other.verifier("trade-thesis/live/gen_2", KeyKind::Log).to_string();
    assert!(matches!(with(&[elsewhere]), Invalid::KeyOfOther { .. }));
    assert!(matches!(with(&[signing().verifier(ORIGIN, KeyKind::Witness).to_string()]), Invalid::KeyKind(_)));
}

#[test]
fn a_statement_proves_what_the_service_said() {
    let proven = read(&statement()).verify(&[log_key()], &[witness().verifier("w.example", KeyKind::Witness)]).unwrap();
    let Statement { claim, verdict, .. } = statement();
    assert_eq!(proven.subject, Subject::Stated { claim, verdict });
    assert_eq!((proven.checkpoint.size, proven.witnesses.len(), proven.is_trusted), (5, 1, true));
}

#[test]
fn a_changed_statement_is_refused_with_what_is_wrong() {
    let changed = |change: &dyn Fn(&mut Statement)| {
        let mut statement = statement();
        change(&mut statement);
        refusal(&statement)
    };
    let signature = || Invalid::Signature { signed: "statement", key: ORIGIN.to_owned() };
    assert_eq!(changed(&|statement| statement.verdict["verified"] = json!(true)), signature());
    assert_eq!(changed(&|statement| statement.claim["handle"] = json!("@b")), signature());
    assert!(matches!(changed(&|statement| statement.claim["a"] = json!(0.5)), Invalid::Number("claim", _)));
    assert!(matches!(changed(&|statement| statement.livemode = false), Invalid::Livemode { .. }));
    assert_eq!(changed(&|statement| statement.signature.clear()), Invalid::SignatureForm);
    assert_eq!(changed(&|statement| statement.signature.insert_str(0, "more\n\n")), Invalid::SignatureForm);
    let other = Checkpoint { origin: ORIGIN.to_owned(), size: 6, root: [3; 32] };
    assert_eq!(changed(&|statement| statement.checkpoint = checkpoint_note(&other)), signature());
    // The signature of a checkpoint is not valid for a statement.
    let checkpoint = Checkpoint { origin: ORIGIN.to_owned(), size: 5, root: [3; 32] };
    let line = signing().sign(ORIGIN, &checkpoint.to_string());
    assert_eq!(changed(&|statement| statement.signature = line.clone()), signature());
}

#[test]
fn other_files_are_unreadable() {
    let whole = serde_json::to_vec(&receipt("text")).unwrap();
    let parse = |bytes: &[u8]| Document::parse(bytes).unwrap_err();
    assert_eq!(parse(b" \n"), Unreadable::Empty);
    assert_eq!(parse(" ".repeat(MAX_BYTES).as_bytes()), Unreadable::Empty);
    assert_eq!(parse(" ".repeat(MAX_BYTES + 1).as_bytes()), Unreadable::Size);
    assert_eq!(parse(&[0xff]), Unreadable::Encoding);
    assert_eq!(parse(&whole[..whole.len() / 2]), Unreadable::Truncated);
    // The page has the same limit.
    let deep = |levels: usize| format!("{{\"later\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(parse(deep(126).as_bytes()), Unreadable::Object);
    assert!(matches!(parse(deep(127).as_bytes()), Unreadable::Json(_)));
    assert!(matches!(parse(b"no receipt"), Unreadable::Json(_)));
    for other in ["[]", "{}", r#"{"object": "thesis"}"#] {
        assert_eq!(parse(other.as_bytes()), Unreadable::Object);
    }
    for object in [RECEIPT, STATEMENT] {
        let error = parse(json!({"object": object}).to_string().as_bytes());
        assert!(matches!(error, Unreadable::Field { object: named, .. } if named == object));
    }
}

#[test]
fn a_repeated_name_in_one_object_is_refused() {
    let whole = serde_json::to_string(&receipt("text")).unwrap();
    let with_field = |field: &str| whole.replacen('{', &format!("{{{field},"), 1);
    // Several objects may have a field of the same name.
    assert!(Document::parse(with_field(r#""a": [{"b": 1}, {"b": 2}, {"a": {"b": 3}}]"#).as_bytes()).is_ok());
    for (field, name) in [
        (r#""livemode": true"#, "livemode"),
        (r#""\u006civemode": true"#, "livemode"),
        (r#""a": 1, "a": 1"#, "a"),
        (r#""a": [[{"b": 1, "c": {}, "b": 2}]]"#, "b"),
        (r#""a": {"": null, "": true}"#, ""),
    ] {
        let error = Document::parse(with_field(field).as_bytes()).unwrap_err();
        let begin = format!("the file can be read in two ways: an object has two fields `{name}` at line 1 column ");
        assert!(error.to_string().starts_with(&begin), "{field}: {error}");
    }
}

/// With the feature `raw_value`, `serde_json` would take the text of such a field for the evidence itself.
#[test]
fn evidence_in_a_text_is_no_evidence() {
    let mut receipt = receipt("text");
    receipt.evidence = json!({"$serde_json::private::RawValue": receipt.evidence.to_string()});
    let error = Document::parse(serde_json::to_string(&receipt).unwrap().as_bytes()).unwrap_err();
    assert!(matches!(error, Unreadable::Ambiguous(_)), "{error}");
}
