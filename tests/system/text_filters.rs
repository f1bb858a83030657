//! Tests of the filter `text`: webhooks, streams and the history of events select the same theses.

use serde_json::{Value, json};
use thesis_proto::v1::{
    self, Environment, EventFilters, event_service_client::EventServiceClient, subscribe_response::Message,
};
use tokio::time::timeout;
use tonic::{Code, Streaming};

use crate::{
    grpc::with_key,
    harness::{ALL_SCOPES, Receiver, SOON, Service, ids, text},
};

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

/// The request for a subscription to the theses of the writer with one of these texts.
fn subscription(texts: &[&str]) -> v1::SubscribeRequest {
    let text = texts.iter().map(|text| (*text).to_owned()).collect();
    let filters = EventFilters { handle: vec!["writer".to_owned()], text, ..EventFilters::default() };
    let types = vec![v1::EventType::ThesisCreated.into()];
    v1::SubscribeRequest { types, filters: Some(filters), ..v1::SubscribeRequest::default() }
}

/// The message that subscribes to these theses on a WebSocket.
fn socket_subscription(texts: &[&str]) -> Value {
    let filters = json!({"handle": ["writer"], "text": texts});
    json!({"op": "subscribe", "sub": "a", "types": ["thesis.created"], "filters": filters})
}

/// The id of the next event of a subscription.
async fn next_id(subscribed: &mut Streaming<v1::SubscribeResponse>) -> String {
    loop {
        let message = timeout(SOON, subscribed.message()).await.expect("a message in time").unwrap();
        if let Message::Event(told) = message.expect("the stream goes on").message.unwrap() {
            return told.event.unwrap().id;
        }
    }
}

async fn everything_selects_the_same_theses(service: &Service) {
    let key = service.project_on("huge").await.key(Environment::Test, ALL_SCOPES).await;
    let (client, receiver) = (&key.client, Receiver::start().await);
    let body = json!({"url": receiver.url, "events": ["thesis.created"], "filters": {"text": FILTER}});
    client.post("/v1/webhooks", &body).await.ok(201);
    let query = "types=thesis.created&handle=writer&text=moon+-sun+OR+sellin*&text=%E7%89%B9%E5%B8%81";
    let mut stream = client.stream(&format!("?{query}")).await;
    let cursor = stream.first_cursor().await;
    let mut socket = client.socket().await;
    assert_eq!(socket.ask(&socket_subscription(&FILTER)).await["op"], "subscribed");
    let request = with_key(&key.raw, subscription(&FILTER));
    let mut subscribed = EventServiceClient::new(service.first_core()).subscribe(request).await.unwrap().into_inner();
    let mut expected = Vec::new();
    for (said, is_selected) in TEXTS {
        let event = client.thesis("writer", "WORDS", said).await.1;
        if is_selected {
            expected.push(text(&event, "id").to_owned());
        }
    }
    for id in &expected {
        assert_eq!(text(&stream.next_of("thesis.created").await.data, "id"), id);
        assert_eq!(text(&socket.next().await["event"], "id"), id);
        assert_eq!(next_id(&mut subscribed).await, *id);
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
    let key = service.project_on("huge").await.key(Environment::Test, ALL_SCOPES).await;
    let (client, mut socket) = (&key.client, key.client.socket().await);
    for wrong in ["OR", "\"open", "-moon", "..."] {
        let refused = socket.ask(&socket_subscription(&[wrong])).await;
        assert_eq!((&refused["op"], &refused["error"]["code"]), (&json!("error"), &json!("VALIDATION_FAILED")));
        assert!(refused.to_string().contains("filters.text"), "{refused}");
        let request = with_key(&key.raw, subscription(&[wrong]));
        let refused = EventServiceClient::new(service.first_core()).subscribe(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
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
