//! Recorded frames, messages and deliveries match the AsyncAPI description. `tests/sdk/asyncapi.cjs` checks 10,000 more
//! with a JSON Schema validator.

use serde_json::{Value, json};
use thesis_proto::time::format_millis;

use super::schema::assert_fits;
use crate::harness::{Receiver, Service, now_ms, text};

on_both_stores![what_is_sent_is_as_asyncapi_says];

const SIX_DAYS_MS: i64 = 6 * 24 * 60 * 60 * 1_000;
/// Subscriptions that replay the same events.
const SUBSCRIPTIONS: usize = 4;

/// A message of a channel, by its name.
fn message<'a>(document: &'a Value, channel: &str, name: &str) -> &'a Value {
    let messages = document["channels"][channel]["messages"].as_object().unwrap().values();
    let mut messages = messages.map(|message| document.pointer(&message["$ref"].as_str().unwrap()[1..]).unwrap());
    messages.find(|message| message["name"] == name).unwrap_or_else(|| panic!("{channel} has no {name}"))
}

/// Checks that a payload matches the schema of the message with this name.
fn assert_payload(document: &Value, channel: &str, name: &str, payload: &Value) {
    assert_fits(document, &message(document, channel, name)["payload"], payload, name);
}

async fn what_is_sent_is_as_asyncapi_says(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    let document = client.get("/v1/asyncapi.json").await.ok(200);
    let (full, thin) = (Receiver::start().await, Receiver::start().await);
    for (receiver, payload) in [(&full, "full"), (&thin, "thin")] {
        let webhook = json!({"url": receiver.url, "events": ["thesis.created"], "payload": payload});
        client.post("/v1/webhooks", &webhook).await.ok(201);
    }
    let event = client.thesis("writer", "ASYNC", "x").await.1;
    for (receiver, name) in [(&full, "thesis.created"), (&thin, "thin")] {
        let delivery = receiver.delivery_of(&event).await;
        assert_payload(&document, "webhook", name, &delivery.event());
        let headers = &message(&document, "webhook", name)["headers"];
        for header in headers["required"].as_array().unwrap() {
            assert!(delivery.headers.contains_key(header.as_str().unwrap()), "{name} lacks {header}");
        }
    }

    let (from, to) = (format_millis(now_ms() - SIX_DAYS_MS), text(&event, "created_at"));
    let mut stream = client.stream(&format!("?from={from}&to={to}")).await;
    let mut frames = Vec::new();
    while let Some(frame) = stream.read().await {
        assert_payload(&document, "events", &frame.event, &frame.data);
        frames.push(frame.event);
    }
    assert!(frames.len() > 100 && frames.last().is_some_and(|last| last == "stream.end"), "{frames:?}");

    let mut socket = client.socket().await;
    for number in 0..SUBSCRIPTIONS {
        let request = json!({"op": "subscribe", "sub": number.to_string(), "from": from, "to": to});
        assert_payload(&document, "stream", "subscribe", &request);
        socket.send(&request).await;
    }
    let (mut events, mut ended) = (0, 0);
    while ended < SUBSCRIPTIONS {
        let message = socket.next().await;
        let op = text(&message, "op");
        assert_payload(&document, "stream", op, &message);
        events += usize::from(op == "event");
        ended += usize::from(op == "ended");
    }
    assert!(events > SUBSCRIPTIONS * 100, "{events}");
}
