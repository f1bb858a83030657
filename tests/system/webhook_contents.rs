//! Tests of a delivery's contents: the headers of Standard Webhooks, the customer's own headers, and the payload.

use std::{fs, path::Path};

use serde_json::{Map, Value, json};

use crate::harness::{Client, Receiver, SOON, Service, assert_fields, eventually, text};

on_both_stores![
    secrets_and_the_key_sign_as_the_standard_says,
    own_headers_arrive_and_stay_hidden,
    a_change_of_headers_leaves_the_others,
    headers_have_bounds,
    a_repeated_request_may_not_have_another_value,
    a_thin_delivery_has_no_data,
];

/// The value of a header. It must occur nowhere else.
const VALUE: &str = "Bearer of-the-customer-8f1b7c";

async fn webhook(client: &Client, receiver: &Receiver, more: Value) -> Value {
    let mut body = json!({"url": receiver.url, "events": ["thesis.created"]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.post("/v1/webhooks", &body).await.ok(201)
}

fn path(webhook: &Value, rest: &str) -> String {
    format!("/v1/webhooks/{}{rest}", text(webhook, "id"))
}

async fn secrets_and_the_key_sign_as_the_standard_says(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let public_key = text(&webhook, "public_key");
    let mut secrets = vec![text(&webhook, "secret").to_owned()];
    for count in [1, 2, 2] {
        let event = client.thesis("writer", "STANDARD", "déjà vu 🚀").await.1;
        let received = receiver.delivery_of(&event).await;
        assert_eq!(received.header("webhook-id"), text(&event, "id"));
        let signatures = received.header("webhook-signature");
        assert_eq!((signatures.matches("v1,").count(), signatures.matches("v1a,").count()), (count, 1));
        for secret in &secrets[secrets.len() - count..] {
            received.verify(secret);
        }
        received.verify_key(public_key);
        let rotated = client.post(&path(&webhook, "/rotate-secret"), &json!({})).await.ok(200);
        assert_eq!(text(&rotated, "public_key"), public_key, "it stays");
        secrets.push(text(&rotated, "secret").to_owned());
    }
    let other = client.webhook(&receiver.url, &["thesis.created"]).await;
    assert_ne!(text(&other, "public_key"), public_key);
}

async fn own_headers_arrive_and_stay_hidden(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let headers = json!({"headers": {"Authorization": VALUE, "X-Findable-Name": "1"}});
    let body = json!({
        "url": receiver.url, "events": ["thesis.created"], "headers": headers["headers"],
    });
    let mut answers = vec![client.post("/v1/webhooks", &body).await];
    let webhook = answers[0].ok(201);
    assert_eq!(webhook["headers"], json!(["Authorization", "X-Findable-Name"]));
    let event = client.thesis("writer", "HEADERS", "x").await.1;
    let received = receiver.delivery_of(&event).await;
    assert_eq!((received.header("authorization"), received.header("x-findable-name")), (VALUE, "1"));
    received.verify(text(&webhook, "secret"));
    answers.push(client.patch(&path(&webhook, ""), &headers).await);
    answers.push(client.patch(&path(&webhook, ""), &json!({"headers": {"Host": VALUE}})).await);
    answers.push(client.post(&path(&webhook, "/rotate-secret"), &json!({})).await);
    for rest in ["", "/deliveries"] {
        answers.push(client.get(&path(&webhook, rest)).await);
    }
    answers.push(client.get("/v1/webhooks").await);
    assert!(answers.iter().all(|answer| !answer.text.contains("8f1b7c")));
    assert!(answers[1].ok(200)["headers"] == webhook["headers"] && answers[2].status == 422);
    assert!(service.processes.iter().all(|process| !process.log().contains("8f1b7c")));
}

async fn a_change_of_headers_leaves_the_others(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = webhook(&client, &receiver, json!({"headers": {"X-A": "1", "X-B": "2"}})).await;
    let change = async |headers: Value| {
        let changed = client.patch(&path(&webhook, ""), &json!({ "headers": headers })).await.ok(200);
        let event = client.thesis("writer", "CHANGED", "x").await.1;
        let received = receiver.delivery_of(&event).await;
        let sent = ["x-a", "x-b", "x-c"]
            .map(|name| received.headers.get(name).map(|value| value.to_str().unwrap().to_owned()));
        (changed["headers"].clone(), sent)
    };
    let some = |value: &str| Some(value.to_owned());
    assert_eq!(change(json!({})).await, (json!(["X-A", "X-B"]), [some("1"), some("2"), None]));
    assert_eq!(change(json!({"X-C": "3"})).await, (json!(["X-A", "X-B", "X-C"]), [some("1"), some("2"), some("3")]));
    assert_eq!(change(json!({"x-a": "4"})).await, (json!(["x-a", "X-B", "X-C"]), [some("4"), some("2"), some("3")]));
    assert_eq!(change(json!({"X-A": null, "X-B": null})).await, (json!(["X-C"]), [None, None, some("3")]));
    assert_eq!(change(json!({"X-None": null})).await, (json!(["X-C"]), [None, None, some("3")]));
}

async fn headers_have_bounds(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let numbered = |from: usize, to: usize| -> Map<String, Value> {
        (from..to).map(|number| (format!("X-{number}"), json!("v"))).collect()
    };
    let full = webhook(&client, &receiver, json!({"headers": numbered(0, 10)})).await;
    assert_eq!(full["headers"].as_array().unwrap().len(), 10);
    let one_more = json!({"headers": {"X-10": "v"}});
    client.patch(&path(&full, ""), &one_more).await.invalid(&["headers"]);
    client.patch(&path(&full, ""), &json!({"headers": {"X-10": "v", "X-0": null}})).await.ok(200);
    // A refused request changes nothing.
    let long = json!({"headers": {"X-1": "v".repeat(4_096)}, "description": "changed"});
    client.patch(&path(&full, ""), &long).await.invalid(&["headers"]);
    assert_eq!(client.get(&path(&full, "")).await.ok(200)["description"], Value::Null);
    for name in ["Content-Length", "transfer-encoding", "Host", "Webhook-Signature", "service-event-id", "Connection"] {
        let body = json!({"url": receiver.url, "events": ["thesis.created"], "headers": {name: "x"}});
        let error = client.post("/v1/webhooks", &body).await.error(422, "VALIDATION_FAILED");
        assert_eq!(text(&error, "param"), format!("headers.{name}"));
    }
}

async fn a_repeated_request_may_not_have_another_value(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let body = |value: &str| json!({"url": receiver.url, "events": ["profile.updated"], "headers": {"X-Key": value}});
    let first = client.post_once("/v1/webhooks", &body("one"), "headers").await.ok(201);
    assert_eq!(client.post_once("/v1/webhooks", &body("one"), "headers").await.ok(201), first);
    client.post_once("/v1/webhooks", &body("two"), "headers").await.error(422, "IDEMPOTENCY_KEY_REUSED");
    let change = json!({"headers": {"X-Key": "three"}});
    let changed = client.patch(&path(&first, ""), &change).await.ok(200);
    assert_eq!(client.patch(&path(&first, ""), &change).await.ok(200), changed, "the value is there already");
}

async fn a_thin_delivery_has_no_data(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = webhook(&client, &receiver, json!({"payload": "thin"})).await;
    assert_eq!(webhook["payload"], "thin");
    let event = client.thesis("writer", "THIN", "x").await.1;
    let received = receiver.delivery_of(&event).await;
    let thin = received.event();
    assert_fields(&thin, &["object", "id", "type", "created_at", "livemode"]);
    assert!(thin.as_object().unwrap().iter().all(|(name, value)| event[name] == *value), "{thin}");
    received.verify(text(&webhook, "secret"));
    received.is_first_attempt_of(&event);
    let test = client.post(&path(&webhook, "/test"), &json!({})).await.ok(202);
    let sent = eventually("the test arrives", SOON, async || {
        receiver.received().into_iter().find(|one| one.header("service-event-id") == text(&test, "event_id"))
    })
    .await;
    assert_fields(&sent.event(), &["object", "id", "type", "created_at", "livemode"]);
    // Each attempt, including a replay, uses the payload that is set at its time.
    client.patch(&path(&webhook, ""), &json!({"payload": "full"})).await.ok(200);
    let replay = format!("/v1/webhook-deliveries/{}/replay", received.header("service-delivery-id"));
    let replayed = eventually("the delivery is over", SOON, async || {
        let answer = client.post(&replay, &json!({})).await;
        (answer.status == 202).then(|| answer.json())
    })
    .await;
    let whole = eventually("the replay arrives", SOON, async || {
        receiver.received().into_iter().find(|one| one.header("service-delivery-id") == text(&replayed, "id"))
    })
    .await;
    assert_eq!(whole.event(), event);
}

/// True if a file in a folder contains this text.
fn has_bytes(folder: &Path, wanted: &str) -> bool {
    fs::read_dir(folder).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return has_bytes(&path, wanted);
        }
        // A socket, or a file that was just removed, contains nothing.
        let bytes = fs::read(&path).unwrap_or_default();
        bytes.windows(wanted.len()).any(|window| window == wanted.as_bytes())
    })
}

#[tokio::test]
async fn values_of_headers_are_in_no_file_and_work_after_a_restore() {
    let mut service = Service::embedded(|setup| setup);
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = webhook(&client, &receiver, json!({"headers": {"X-Findable-Name": VALUE}})).await;
    let request = json!({"headers": {"X-Findable-Name": VALUE}, "description": "again"});
    client.post_once(&path(&webhook, "/test"), &json!({}), "kept").await.ok(202);
    client.patch(&path(&webhook, ""), &request).await.ok(200);
    let (file, _) = service.save("headers.backup").await;
    let copy = service.restore(&file, "copy").await;
    assert!(has_bytes(&copy, "X-Findable-Name"), "the search finds what is there");
    assert!(!has_bytes(&copy, VALUE) && !has_bytes(service.dir.path(), VALUE));
    service.go_on_in(&copy).await;
    let client = client.anew();
    let event = client.thesis("writer", "RESTORED", "x").await.1;
    assert_eq!(receiver.delivery_of(&event).await.header("x-findable-name"), VALUE);
}
