//! `trade-thesis witness`, called as a log calls it.

use std::{collections::BTreeMap, fs, path::Path};

use reqwest::StatusCode;
use serde_json::Value;
use thesis_receipts::{
    AddCheckpoint, Checkpoint, GrowingTree, KeyKind, Note, ProofPlan, SigningKey, VerifierKey, leaf_hash,
};

use crate::harness::{Process, SOON, Setup, eventually, fetch, http_client, rows, text};

const ORIGIN: &str = "trade-thesis/live/gen_1";

fn log_key() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

/// Starts a witness of the logs with these keys.
fn witness(dir: &Path, keys: &[&str]) -> Process {
    let arguments = ["witness", "--name", "witness.example/ann", "--listen", "127.0.0.1:0"];
    let keys = keys.iter().flat_map(|key| ["--key", *key]);
    Setup::new(dir).arguments(&arguments.into_iter().chain(keys).collect::<Vec<_>>()).start()
}

/// The public key of the witness with this folder.
fn key_of(dir: &Path) -> VerifierKey {
    fs::read_to_string(dir.join("data/witness_key.pub")).unwrap().parse().unwrap()
}

/// The request for a cosignature of a tree with these leaves, and the text of its checkpoint.
fn request(old: u64, leaves: impl Iterator<Item = u64>) -> (String, String) {
    let mut tree = GrowingTree::default();
    leaves.for_each(|leaf| tree.push(leaf_hash(&leaf.to_be_bytes())));
    let text = Checkpoint { origin: ORIGIN.to_owned(), size: tree.size(), root: tree.root() }.to_string();
    let tiles: BTreeMap<_, _> = tree.take_changed().into_iter().collect();
    let plan = ProofPlan::consistency(old, tree.size());
    let proof = plan.and_then(|plan| plan.hashes(&tiles)).unwrap_or_default();
    let checkpoint = format!("{text}\n{}", log_key().sign(ORIGIN, &text));
    (AddCheckpoint { old, proof, checkpoint }.to_string(), text)
}

async fn post(witness: &Process, body: String) -> (StatusCode, Option<String>, String) {
    let url = format!("{}/add-checkpoint", witness.address("http"));
    let answer = http_client().build().unwrap().post(url).body(body).send().await.unwrap();
    let kind = answer.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
    (answer.status(), kind, answer.text().await.unwrap())
}

#[tokio::test]
async fn a_witness_cosigns_what_continues_and_refuses_everything_else() {
    let dir = tempfile::tempdir().unwrap();
    let log = log_key().verifier(ORIGIN, KeyKind::Log).to_string();
    let mut process = witness(dir.path(), &[&log]);
    let key = key_of(dir.path());
    assert_eq!((key.name(), key.kind()), ("witness.example/ann", KeyKind::Witness));
    let (body, text) = request(0, 0..100);
    let (status, _, cosignature) = post(&process, body).await;
    assert_eq!(status, StatusCode::OK, "{cosignature}");
    let note = format!("{text}\n{cosignature}");
    assert!(Note::parse(&note).unwrap().cosigned_at(&key).unwrap().is_some());

    // It remembers after a crash, and has the same key.
    process.signal("KILL");
    process.exit(SOON).await;
    let process = witness(dir.path(), &[&log]);
    assert_eq!(key_of(dir.path()), key);
    let changed = |leaf| if leaf == 40 { 1_000 } else { leaf };
    for (body, expected) in [
        (request(100, (0..150).map(changed)).0, StatusCode::UNPROCESSABLE_ENTITY),
        (request(100, (0..99).chain(1_000..1_051)).0, StatusCode::UNPROCESSABLE_ENTITY),
        (request(100, 0..60).0, StatusCode::BAD_REQUEST),
        (request(0, 0..100).0.replace("gen_1", "gen_2"), StatusCode::NOT_FOUND),
        (request(100, 0..150).0.replace("\n150\n", "\n151\n"), StatusCode::FORBIDDEN),
        ("old 100".to_owned(), StatusCode::BAD_REQUEST),
        ("x".repeat(64 * 1024 + 1), StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let (status, _, text) = post(&process, body).await;
        assert_eq!(status, expected, "{text}");
    }
    for body in [request(60, 0..60).0, request(100, (0..100).map(changed)).0] {
        let (status, kind, size) = post(&process, body).await;
        assert_eq!((status, kind.as_deref(), &*size), (StatusCode::CONFLICT, Some("text/x.tlog.size"), "100\n"));
    }
    let (status, ..) = post(&process, request(100, 0..150).0).await;
    assert_eq!(status, StatusCode::OK);
}

#[tokio::test]
async fn a_service_adds_the_cosignatures_of_its_witness() {
    let (service_dir, witness_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let setup = Setup::new(service_dir.path());
    let mut service = setup.start();
    let address = format!("{}/v1/log/keys", service.address("http"));
    let keys: Value = eventually("the logs are signed", SOON, async || {
        let list: Value = fetch(&address).await.unwrap().json().await.unwrap();
        (rows(&list).len() >= 2).then_some(list)
    })
    .await;
    let keys: Vec<&str> = rows(&keys).iter().map(|row| text(row, "key")).collect();
    let witness = witness(witness_dir.path(), &keys);
    service.signal("TERM");
    service.exit(SOON).await;

    let key = key_of(witness_dir.path());
    let service = setup.set("SVC_WITNESSES", &format!("{key} {}", witness.address("http"))).start();
    let address = format!("{}/v1/log/sandbox/checkpoint", service.address("http"));
    let note = eventually("the checkpoint is cosigned", SOON, async || {
        let note = fetch(&address).await.unwrap().text().await.unwrap();
        let is_cosigned = Note::parse(&note).unwrap().cosigned_at(&key).unwrap().is_some();
        is_cosigned.then_some(note)
    })
    .await;
    let log = keys
        .iter()
        .map(|key| key.parse::<VerifierKey>().unwrap())
        .find(|log| Note::parse(&note).unwrap().is_signed_by(log) == Ok(true));
    assert!(log.is_some(), "{note}");
}
