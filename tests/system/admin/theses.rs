//! `admin thesis erase`: the text is gone, and receipts stay valid.

use std::fs;

use serde_json::Value;
use thesis_proto::v1::observation::Observed;
use thesis_receipts::Document;

use super::{admin, refused};
use crate::harness::{
    LIVE_KEY, SOON, Service, eventually,
    ingest::{author, deletion, revision, thesis, token},
    now_ms, rows, text,
};

on_both_stores![an_erased_text_is_gone_and_its_receipt_stays_valid];

const SECRET: &str = "my name is Ann and I live at the lake";
const STREAM: &str = "?types=thesis.created&handle=erased_writer";

async fn an_erased_text_is_gone_and_its_receipt_stays_valid(service: &Service) {
    let client = service.client(LIVE_KEY);
    let (by, on) = (author("erased_user", "erased_writer"), token("base", "0xe4a5ed", "ERASED"));
    let earlier = thesis("kept_post", &by, &token("base", "0xe4a5ee", "KEPT"), "kept", now_ms() - 120_000);
    let posted = thesis("erased_post", &by, &on, SECRET, now_ms() - 60_000);
    let mut stream = client.stream(STREAM).await;
    service.ingest("live", vec![revision(1, Observed::Thesis(earlier))]).await;
    service.ingest("live", vec![revision(1, Observed::Thesis(posted))]).await;
    let cursor = stream.take(2).await[0].cursor().to_owned();
    let resumed = async || {
        let mut stream = client.try_resume(STREAM, &cursor).await?;
        Some(text(&stream.take(1).await[0].data["data"], "text").to_owned())
    };
    assert_eq!(eventually("a stream", SOON, resumed).await, SECRET);
    let listed = client.get("/v1/theses?token=ERASED").await.ok(200);
    let id = text(&rows(&listed)[0], "id");
    let path = format!("/v1/theses/{id}/receipt");
    let receipt = eventually("the log is signed", SOON, async || {
        let answer = client.get(&path).await;
        (answer.status == 200).then(|| answer.ok(200))
    })
    .await;
    let command = ["thesis", "erase", id, "--reason", "the author asked"];
    refused(service, &command, "VALIDATION_FAILED");
    service.ingest("live", vec![revision(2, deletion("erased_post"))]).await;

    let erased = admin(service, &command);
    assert_eq!((text(&erased, "thesis_id"), &erased["entries"]), (id, &Value::from(2)));
    // Another core may have entries in memory until it reads the log further.
    eventually("every core forgets the text", SOON, async || {
        let events = client.all("/v1/events?token=ERASED&types=thesis.created").await;
        let is_erased = events.iter().map(|event| text(&event["data"], "text")).eq([""]);
        (is_erased && client.get(&path).await.status == 409).then_some(())
    })
    .await;
    // So have the events that edges keep for streams that resume.
    eventually("every edge forgets the text", SOON, async || resumed().await.filter(|text| text.is_empty())).await;
    client.get(&path).await.error(409, "RECEIPT_UNAVAILABLE");
    let kept = Document::parse(receipt.to_string().as_bytes()).unwrap();
    kept.verify(&[], &[]).unwrap();
    let copy = service.dir.path().join("erased.jsonl");
    admin(service, &["export", "--dataset", "live", "--to", copy.to_str().unwrap()]);
    assert!(!fs::read_to_string(&copy).unwrap().contains(SECRET));
    let acts = admin(service, &["audit", "list", "--limit", "1000"]);
    let act = rows(&acts).iter().find(|act| act["action"] == "thesis.erased" && act["subject"] == id).unwrap();
    assert_eq!((text(act, "actor"), text(act, "reason")), ("operator", "the author asked"));
    assert_eq!(admin(service, &command)["entries"], 0, "erased twice");
}
