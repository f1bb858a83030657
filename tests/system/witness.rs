//! `trade-thesis witness` as a log speaks to it.

use std::{collections::BTreeMap, fs, path::Path};

use reqwest::StatusCode;
use thesis_receipts::{
    AddCheckpoint, Checkpoint, GrowingTree, KeyKind, Note, ProofPlan, SigningKey, VerifierKey, leaf_hash,
};

use crate::harness::{Process, SOON, Setup, http_client};

const ORIGIN: &str = "trade-thesis/live/gen_1";

fn log_key() -> SigningKey {
    SigningKey::from_seed(&[1; 32])
}

fn witness(dir: &Path) -> Process {
    let key = log_key().verifier(ORIGIN, KeyKind::Log).to_string();
    let arguments = ["witness", "--name", "witness.example/ann", "--key", &key, "--listen", "127.0.0.1:0"];
    Setup::new(dir).arguments(&arguments).start()
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
    let mut process = witness(dir.path());
    let key: VerifierKey = fs::read_to_string(dir.path().join("data/witness_key.pub")).unwrap().parse().unwrap();
    assert_eq!((key.name(), key.kind()), ("witness.example/ann", KeyKind::Witness));
    let (body, text) = request(0, 0..100);
    let (status, _, cosignature) = post(&process, body).await;
    assert_eq!(status, StatusCode::OK, "{cosignature}");
    let note = format!("{text}\n{cosignature}");
    assert!(Note::parse(&note).unwrap().cosigned_at(&key).unwrap().is_some());

    // It remembers after a crash, and has the same key.
    process.signal("KILL");
    process.exit(SOON).await;
    let process = witness(dir.path());
    let kept = fs::read_to_string(dir.path().join("data/witness_key.pub")).unwrap();
    assert_eq!(kept, key.to_string());
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
    let (status, kind, size) = post(&process, request(60, 0..60).0).await;
    assert_eq!((status, kind.as_deref(), &*size), (StatusCode::CONFLICT, Some("text/x.tlog.size"), "100\n"));
    let (status, ..) = post(&process, request(100, 0..150).0).await;
    assert_eq!(status, StatusCode::OK);
}
