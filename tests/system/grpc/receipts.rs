//! Receipts and the logs' trees over gRPC, compared with REST.

use thesis_proto::{
    json as canonical,
    v1::{self, log_service_client::LogServiceClient},
};
use thesis_receipts::{Checkpoint, HASH_BYTES, Note};
use tonic::Code;

use super::{assert_failure, customer, json, with_key};
use crate::{
    harness::{SOON, Service, eventually, text},
    receipts::{assert_is_of, keys, proven, sandbox_thesis},
};

on_both_stores![everybody_reads_the_trees, a_receipt_is_that_of_rest];

async fn everybody_reads_the_trees(service: &Service) {
    let keys = keys(service).await;
    let mut log = LogServiceClient::new(service.channel());
    let listed = log.list_keys(v1::LogServiceListKeysRequest {}).await.unwrap().into_inner();
    let listed: Vec<String> = listed.data.into_iter().map(|key| key.key).collect();
    assert!(keys.iter().all(|key| listed.contains(&key.to_string())), "{listed:?}");
    let dataset = || "sandbox".to_owned();
    let request = v1::GetCheckpointRequest { dataset: dataset() };
    let note = log.get_checkpoint(request).await.unwrap().into_inner().note;
    let note = Note::parse(&note).unwrap();
    assert!(keys.iter().any(|key| note.is_signed_by(key) == Ok(true)));
    assert!(Checkpoint::parse(note.text()).unwrap().size > 3);
    let tile = |tile: &str| v1::GetTileRequest { dataset: dataset(), tile: tile.to_owned() };
    let hashes = log.get_tile(tile("0/000.p/3")).await.unwrap().into_inner().hashes;
    assert_eq!(hashes.len(), 3 * HASH_BYTES);
    for beyond in ["0/x999/999", "nothing"] {
        let refused = log.get_tile(tile(beyond)).await.unwrap_err();
        assert_failure(&refused, Code::NotFound, "ROUTE_NOT_FOUND");
    }
    let refused = log.get_checkpoint(v1::GetCheckpointRequest::default()).await.unwrap_err();
    assert_failure(&refused, Code::NotFound, "ROUTE_NOT_FOUND");
}

async fn a_receipt_is_that_of_rest(service: &Service) {
    let (key, client) = customer(service).await;
    let thesis = sandbox_thesis(&client).await;
    let request = || v1::GetReceiptRequest { thesis_id: text(&thesis, "id").to_owned() };
    let receipt = eventually("the log is signed", SOON, async || {
        let answer = LogServiceClient::new(service.channel()).get_receipt(with_key(&key, request())).await;
        answer.ok()?.into_inner().receipt
    });
    let receipt = json(canonical::Receipt::from(&receipt.await));
    assert_is_of(&proven(service, &receipt).await, &thesis);
    let mut log = LogServiceClient::new(service.channel());
    let refused = log.get_receipt(request()).await.unwrap_err();
    assert_failure(&refused, Code::Unauthenticated, "MISSING_API_KEY");
    let unknown = v1::GetReceiptRequest { thesis_id: "th_unknown".to_owned() };
    let refused = log.get_receipt(with_key(&key, unknown)).await.unwrap_err();
    assert_failure(&refused, Code::NotFound, "THESIS_NOT_FOUND");
}
