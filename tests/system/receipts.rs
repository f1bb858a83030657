//! Receipts and statements, and the trees over the logs that contain their entries.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::{Value, json};
use thesis_receipts::{Checkpoint, Document, GrowingTree, Note, Subject, VerifiedDocument, VerifierKey};

use crate::harness::{Answer, Client, SOON, Service, TEST_KEY, eventually, now_ms, rows, text};

on_both_stores![
    a_thesis_of_the_sandbox_has_a_receipt,
    a_verification_comes_with_its_receipt,
    any_other_verdict_comes_with_a_statement,
    a_checkpoint_is_the_root_of_its_tiles,
    what_is_not_there_is_named,
    keys_are_listed_with_their_times,
];

/// The `Cache-Control` of tiles.
const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// The keys of the logs, as everybody reads them.
pub(crate) async fn keys(service: &Service) -> Vec<VerifierKey> {
    let list = eventually("the logs are signed", SOON, async || {
        let answer = service.anonymous().get("/v1/log/keys").await;
        let list = answer.ok(200);
        (rows(&list).len() >= 2).then_some(list)
    })
    .await;
    rows(&list).iter().map(|key| text(key, "key").parse().unwrap()).collect()
}

/// An answer that is there once the log is signed that far.
async fn covered(ask: impl AsyncFn() -> Answer) -> Value {
    eventually("the log is signed", SOON, async || {
        let answer = ask().await;
        if answer.status == 409 {
            answer.error(409, "RECEIPT_UNAVAILABLE");
            return None;
        }
        Some(answer.ok(200))
    })
    .await
}

/// Verifies a document of the sandbox with the keys of the logs as trusted ones.
pub(crate) async fn proven(service: &Service, document: &Value) -> VerifiedDocument {
    let document = Document::parse(document.to_string().as_bytes()).unwrap();
    let proven = document.verify(&keys(service).await, &[]).unwrap();
    assert!(proven.is_trusted && proven.dataset == "sandbox", "{proven:?}");
    proven
}

/// A thesis of the sandbox.
pub(crate) async fn sandbox_thesis(client: &Client) -> Value {
    rows(&client.get("/v1/theses?token=RUN&limit=1").await.ok(200))[0].clone()
}

pub(crate) fn assert_is_of(proven: &VerifiedDocument, thesis: &Value) {
    let Subject::Recorded(evidence) = &proven.subject else { panic!("{proven:?}") };
    assert_eq!((&*evidence.thesis_id, evidence.text.as_deref()), (text(thesis, "id"), thesis["text"].as_str()));
    assert_eq!((&*evidence.created_at, &*evidence.dataset), (text(thesis, "created_at"), "sandbox"));
    assert_eq!(evidence.profile.handle, text(&thesis["profile"], "handle"));
    assert_eq!(evidence.token.address, text(&thesis["token"], "address"));
}

async fn a_thesis_of_the_sandbox_has_a_receipt(service: &Service) {
    let client = service.test_client().await;
    let thesis = sandbox_thesis(&client).await;
    let path = format!("/v1/theses/{}/receipt", text(&thesis, "id"));
    let receipt = covered(async || client.get(&path).await).await;
    assert_eq!((&receipt["object"], &receipt["livemode"]), (&json!("receipt"), &json!(false)));
    assert_eq!(receipt["evidence"]["sequence"].as_u64(), receipt["index"].as_u64().map(|index| index + 1));
    assert_is_of(&proven(service, &receipt).await, &thesis);
}

async fn a_verification_comes_with_its_receipt(service: &Service) {
    let client = service.test_client().await;
    let thesis = sandbox_thesis(&client).await;
    let mut claim = json!({
        "handle": thesis["profile"]["handle"], "token": thesis["token"]["id"], "created_after": thesis["created_at"],
        "created_before": thesis["created_at"], "receipt": true,
    });
    let verdict = covered(async || client.post("/v1/verify/thesis", &claim).await).await;
    assert_eq!((text(&verdict, "reason"), verdict.get("statement")), ("VERIFIED", None));
    assert_is_of(&proven(service, &verdict["receipt"]).await, &thesis);
    claim["receipt"] = json!(false);
    let bare = client.post("/v1/verify/thesis", &claim).await.ok(200);
    assert_eq!((bare.get("receipt"), bare.get("statement")), (None, None));
}

async fn any_other_verdict_comes_with_a_statement(service: &Service) {
    let client = service.test_client().await;
    let thesis = sandbox_thesis(&client).await;
    let claim = json!({
        "handle": thesis["profile"]["handle"], "token": thesis["token"]["id"], "created_after": thesis["created_at"],
        "contains": "words that nobody wrote", "receipt": true,
    });
    let verdict = covered(async || client.post("/v1/verify/thesis", &claim).await).await;
    assert_eq!((text(&verdict, "reason"), verdict.get("receipt")), ("TEXT_NOT_FOUND", None));
    let proven = proven(service, &verdict["statement"]).await;
    let Subject::Stated { claim: stated, verdict: said } = proven.subject else { panic!("{proven:?}") };
    let mut expected = claim.clone();
    expected.as_object_mut().unwrap().remove("receipt");
    assert_eq!(stated, expected);
    assert_eq!((&said["reason"], &said["checks"]), (&verdict["reason"], &verdict["checks"]));
    assert!(proven.checkpoint.size > 0);
}

async fn a_checkpoint_is_the_root_of_its_tiles(service: &Service) {
    let keys = keys(service).await;
    let anyone = service.anonymous();
    let read = async |path: &str| {
        let response = anyone.request(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200, "{path}");
        let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        (header("content-type"), header("cache-control"), response.bytes().await.unwrap())
    };
    let (kind, caching, note) = read("/v1/log/sandbox/checkpoint").await;
    assert_eq!((&*kind, &*caching), ("text/plain; charset=utf-8", "public, no-cache"));
    let note = Note::parse(str::from_utf8(&note).unwrap()).unwrap();
    assert!(keys.iter().any(|key| note.is_signed_by(key) == Ok(true)));
    let checkpoint = Checkpoint::parse(note.text()).unwrap();
    assert!(checkpoint.origin.starts_with("trade-thesis/sandbox/gen_") && checkpoint.size >= 150, "{checkpoint:?}");
    let mut tiles = BTreeMap::new();
    for tile in GrowingTree::tiles_of(checkpoint.size) {
        let path = format!("/v1/log/sandbox/tile/{}", tile.path(tile.width_at(checkpoint.size)));
        let (kind, caching, hashes) = read(&path).await;
        assert_eq!((&*kind, &*caching), ("application/octet-stream", IMMUTABLE));
        tiles.insert(tile, hashes);
    }
    let tree = GrowingTree::from_tiles(checkpoint.size, &tiles).unwrap();
    assert_eq!(tree.root(), checkpoint.root);
    // A client that has the tile already gets the head of the response alone.
    let path = "/v1/log/sandbox/tile/0/000.p/7";
    let tag = anyone.request(Method::GET, path).send().await.unwrap().headers()["etag"].clone();
    let known = anyone.request(Method::GET, path).header("if-none-match", tag).send().await.unwrap();
    assert_eq!((known.status().as_u16(), known.headers()["cache-control"].to_str().unwrap()), (304, IMMUTABLE));
    assert!(known.bytes().await.unwrap().is_empty());
}

async fn what_is_not_there_is_named(service: &Service) {
    keys(service).await;
    let (client, anyone) = (service.test_client().await, service.anonymous());
    let (dataset, form, beyond) = ("no log of this dataset", "this is no tile", "does not have this tile");
    for (path, reason) in [
        ("/v1/log/project/checkpoint", dataset),
        ("/v1/log/project/tile/0/000", dataset),
        ("/v1/log/sandbox/tile/0/0", form),
        ("/v1/log/sandbox/tile/0/000.p/256", form),
        ("/v1/log/sandbox/tile/0/x999/999", beyond),
        ("/v1/log/sandbox/tile/5/000.p/1", beyond),
    ] {
        let error = anyone.get(path).await.error(404, "ROUTE_NOT_FOUND");
        assert!(text(&error, "message").contains(reason), "{path}: {error}");
    }
    client.get("/v1/theses/th_unknown/receipt").await.error(404, "THESIS_NOT_FOUND");
    anyone.get("/v1/theses/th_unknown/receipt").await.error(401, "MISSING_API_KEY");
    let (own, _) = client.thesis("writer", "OWN", "moon").await;
    let claim = json!({"handle": "writer", "token": "OWN", "created_after": own["created_at"], "receipt": true});
    for refused in [
        client.get(&format!("/v1/theses/{}/receipt", text(&own, "id"))).await,
        client.post("/v1/verify/thesis", &claim).await,
    ] {
        let error = refused.error(409, "RECEIPT_UNAVAILABLE");
        assert!(text(&error, "message").contains("own test data has no receipt"), "{error}");
    }
}

async fn keys_are_listed_with_their_times(service: &Service) {
    keys(service).await;
    let list = service.anonymous().get("/v1/log/keys").await.ok(200);
    let page = json!([list["object"], list["has_more"], list["next_cursor"]]);
    assert_eq!(page, json!(["list", false, null]));
    for dataset in ["live", "sandbox"] {
        let begin = format!("trade-thesis/{dataset}/gen_");
        let found = rows(&list).iter().find(|key| text(key, "name").starts_with(&begin));
        let key = found.unwrap_or_else(|| panic!("{list}"));
        let names: BTreeSet<&str> = key.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, BTreeSet::from(["created_at", "key", "name", "object", "retired_at"]));
        assert_eq!((text(key, "object"), &key["retired_at"]), ("log_key", &Value::Null));
        assert!(text(key, "key").starts_with(text(key, "name")) && text(key, "created_at").ends_with('Z'), "{key}");
    }
}

#[tokio::test]
async fn reads_of_the_logs_are_limited_by_the_callers_address() {
    let service = Service::embedded(|setup| setup);
    keys(&service).await;
    // All paths count together, also missing ones. The reads must all be in one minute.
    let paths = ["/v1/log/keys", "/v1/log/nothing/checkpoint", "/v1/log/sandbox/tile/9"];
    let (reads, client, refused) = loop {
        let client = service.anonymous();
        let (minute, mut reads) = (now_ms() / 60_000, 0);
        let refused = loop {
            let answer = client.get(paths[reads % paths.len()]).await;
            if answer.status == 429 {
                break answer;
            }
            reads += 1;
        };
        if now_ms() / 60_000 == minute {
            break (reads, client, refused);
        }
    };
    assert_eq!(reads, 600);
    let error = refused.error(429, "RATE_LIMITED");
    assert!(text(&error, "message").contains("reads of the log from this address"), "{error}");
    assert!((1..=60).contains(&refused.number("retry-after")));
    // Other addresses may read, and requests with a key are not limited.
    service.anonymous().get("/v1/log/keys").await.ok(200);
    client.with_key(Some(TEST_KEY)).get("/v1/me").await.ok(200);
}
