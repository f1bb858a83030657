//! A restored log has a new tree, since other entries get the numbers of those that are missing.

use std::collections::BTreeMap;

use reqwest::{Method, StatusCode};
use thesis_receipts::{Checkpoint, Document, GrowingTree, Note, VerifierKey};

use crate::harness::{SOON, Service, eventually, rows, text};

/// A public file of the log; none while there is none.
async fn read(service: &Service, path: &str) -> Option<Vec<u8>> {
    let response = service.anonymous().request(Method::GET, path).send().await.unwrap();
    let is_there = response.status() == StatusCode::OK;
    let body = response.bytes().await.unwrap();
    is_there.then(|| body.to_vec())
}

/// The newest checkpoint of the sandbox, whose root is that of the tiles.
async fn checkpoint(service: &Service) -> Checkpoint {
    let read_note = async || read(service, "/v1/log/sandbox/checkpoint").await;
    let note = eventually("the log is signed", SOON, read_note).await;
    let checkpoint = Checkpoint::parse(Note::parse(str::from_utf8(&note).unwrap()).unwrap().text()).unwrap();
    let mut tiles = BTreeMap::new();
    for tile in GrowingTree::tiles_of(checkpoint.size) {
        let path = format!("/v1/log/sandbox/tile/{}", tile.path(tile.width_at(checkpoint.size)));
        tiles.insert(tile, read(service, &path).await.expect("a tile of a signed tree is there"));
    }
    let tree = GrowingTree::from_tiles(checkpoint.size, &tiles).expect("the tiles are whole");
    assert_eq!(tree.root(), checkpoint.root);
    checkpoint
}

/// The keys of the logs, with whether each is retired.
async fn keys(service: &Service) -> Vec<(VerifierKey, bool)> {
    let list = service.anonymous().get("/v1/log/keys").await.ok(200);
    let key = |key: &serde_json::Value| (text(key, "key").parse().unwrap(), !key["retired_at"].is_null());
    rows(&list).iter().map(key).collect()
}

#[tokio::test]
async fn a_restored_log_is_another_log_and_old_receipts_stay_valid() {
    let mut service = Service::embedded(|setup| setup);
    let client = service.test_client().await;
    let thesis = rows(&client.get("/v1/theses?token=RUN&limit=1").await.ok(200))[0].clone();
    let path = format!("/v1/theses/{}/receipt", text(&thesis, "id"));
    let receipt = async || Some(client.get(&path).await).filter(|answer| answer.status == 200);
    let receipt = eventually("a receipt", SOON, receipt).await.ok(200);
    let before = checkpoint(&service).await;
    let (file, _) = service.save("trees.backup").await;

    let copy = service.restore(&file, "copy").await;
    service.go_on_in(&copy).await;
    let after = checkpoint(&service).await;
    assert!(after.origin != before.origin && after.origin.starts_with("trade-thesis/sandbox/gen_"), "{after:?}");
    let all = keys(&service).await;
    for (origin, is_retired) in [(&before.origin, true), (&after.origin, false)] {
        let is_listed = |(key, retired): &(VerifierKey, bool)| key.name() == origin && *retired == is_retired;
        assert!(all.iter().any(is_listed), "{origin}");
    }
    let trusted: Vec<VerifierKey> = all.into_iter().map(|(key, _)| key).collect();
    let document = Document::parse(receipt.to_string().as_bytes()).unwrap();
    assert!(document.verify(&trusted, &[]).unwrap().is_trusted);
}
