//! Tests of the filter `text`: webhooks, streams and the history of events select the same theses.

use serde_json::{Value, json};

use crate::harness::{Receiver, Service, ids, text};

on_both_stores![
    everything_selects_the_same_theses,
    a_filter_by_text_is_kept_and_replaced,
    malformed_texts_are_refused,
    a_page_of_a_rare_word_goes_on,
];

const TEXTS: [(&str, bool); 6] = [
    ("To the MOON with it", true),
    ("moonlight, nothing else", false),
    ("the sun or the moon?", false),
    ("selling everything", true),
    ("we sell everything", false),
    ("比特币到了", true),
];
const FILTER: [&str; 2] = ["moon -sun OR sellin*", "特币"];

async fn everything_selects_the_same_theses(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let body = json!({"url": receiver.url, "events": ["thesis.created"], "filters": {"text": FILTER}});
    client.post("/v1/webhooks", &body).await.ok(201);
    let query = "types=thesis.created&handle=writer&text=moon+-sun+OR+sellin*&text=%E7%89%B9%E5%B8%81";
    let mut stream = client.stream(&format!("?{query}")).await;
    let cursor = stream.first_cursor().await;
    let mut expected = Vec::new();
    for (said, is_selected) in TEXTS {
        let event = client.thesis("writer", "WORDS", said).await.1;
        if is_selected {
            expected.push(text(&event, "id").to_owned());
        }
    }
    for id in &expected {
        assert_eq!(text(&stream.next_of("thesis.created").await.data, "id"), id);
    }
    let mut resumed = client.resume(&format!("?{query}"), &cursor).await;
    for id in &expected {
        assert_eq!(text(&resumed.next_of("thesis.created").await.data, "id"), id);
    }
    let mut listed: Vec<String> =
        ids(&client.all(&format!("/v1/events?{query}")).await).into_iter().map(str::to_owned).collect();
    listed.reverse();
    assert_eq!(listed, expected);
    // When the last event arrives, all earlier ones were matched.
    let last = json!({"id": expected.last().unwrap()});
    receiver.delivery_of(&last).await;
    let mut arrived: Vec<String> = receiver.arrivals().into_keys().collect();
    arrived.sort();
    expected.sort();
    assert!(arrived.iter().all(|id| expected.contains(id)), "{arrived:?} {expected:?}");
    for id in &expected {
        receiver.delivery_of(&json!({"id": id})).await;
    }
}

async fn a_filter_by_text_is_kept_and_replaced(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let body = json!({"url": receiver.url, "events": ["thesis.created"], "filters": {"text": ["moon"]}});
    let webhook = client.post("/v1/webhooks", &body).await.ok(201);
    assert_eq!(webhook["filters"], body["filters"]);
    let path = format!("/v1/webhooks/{}", text(&webhook, "id"));
    client.patch(&path, &json!({"filters": {"text": ["sun", "\"red planet\""]}})).await.ok(200);
    client.thesis("writer", "WORDS", "moon").await;
    let event = client.thesis("writer", "WORDS", "a red planet").await.1;
    receiver.delivery_of(&event).await;
    assert_eq!(receiver.received().len(), 1);
    client.patch(&path, &json!({"filters": {}})).await.ok(200);
    let event = client.thesis("writer", "WORDS", "moon").await.1;
    receiver.delivery_of(&event).await;
}

async fn malformed_texts_are_refused(service: &Service) {
    let client = service.test_client().await;
    for wrong in ["OR", "\"open", "-moon", "..."] {
        let body =
            json!({"url": "http://127.0.0.1:19999/", "events": ["thesis.created"], "filters": {"text": [wrong]}});
        client.post("/v1/webhooks", &body).await.invalid(&["filters.text"]);
    }
    client.get("/v1/events?text=OR").await.invalid(&["text"]);
    client.get("/v1/events?text=moon&text=%22open").await.invalid(&["text"]);
    client.get("/v1/events/stream?text=OR").await.invalid(&["text"]);
}

async fn a_page_of_a_rare_word_goes_on(service: &Service) {
    let client = service.test_client().await;
    let event = client.thesis("writer", "RARE", "one xylophone").await.1;
    for number in 0..5 {
        client.thesis("writer", "RARE", &format!("ordinary {number}")).await;
    }
    let found = client.all("/v1/events?text=xylophone&limit=1").await;
    assert_eq!(found.iter().map(|row| &row["id"]).collect::<Vec<&Value>>(), [&event["id"]]);
    // A cursor is valid only for the text of its list.
    let page = client.get("/v1/events?text=ordinary&limit=1").await.ok(200);
    let other = format!("/v1/events?text=xylophone&limit=1&cursor={}", text(&page, "next_cursor"));
    client.get(&other).await.error(400, "INVALID_CURSOR");
}
