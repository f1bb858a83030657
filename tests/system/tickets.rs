//! Tickets, with which browsers open streams.

use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};
use thesis_proto::v1::Environment;

use crate::harness::{ALL_SCOPES, Client, SOON, Service, Socket, Sse, assert_fields, text};

on_both_stores![
    a_ticket_opens_one_stream_at_a_time,
    a_ticket_has_its_keys_rights,
    a_ticket_opens_a_socket,
    tickets_are_refused_as_keys_are,
];

async fn ticket(client: &Client) -> String {
    let made = client.send(client.request(Method::POST, "/v1/stream/tickets")).await.ok(201);
    assert_fields(&made, &["object", "ticket", "expires_at"]);
    assert_eq!(made["object"], "stream_ticket");
    text(&made, "ticket").to_owned()
}

/// A client without a key that opens a stream with a ticket.
async fn open(client: &Client, ticket: &str, more: &str) -> Sse {
    client.with_key(None).stream(&format!("?ticket={ticket}&types=thesis.created{more}")).await
}

async fn a_ticket_opens_one_stream_at_a_time(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    let ticket = ticket(&client).await;
    let mut first = open(&client, &ticket, "").await;
    let event = client.thesis("writer", "TICKET", "x").await.1;
    let frame = first.next().await;
    assert_eq!(frame.data, event);
    // As a browser reconnects: the same URL, and the last id. The old connection ends on whatever replica.
    for _ in 0..3 {
        let event = client.thesis("writer", "TICKET", "y").await.1;
        let mut again = open(&client, &ticket, &format!("&from_cursor={}", frame.cursor())).await;
        first.end(Duration::from_secs(2)).await;
        while again.next().await.data != event {}
        first = again;
    }
}

async fn a_ticket_has_its_keys_rights(service: &Service) {
    let project = service.project().await;
    let key = project.key(Environment::Test, ALL_SCOPES).await;
    let ticket = ticket(&key.client).await;
    let mut stream = open(&key.client, &ticket, "").await;
    project.revoke(&key).await;
    stream.end(Duration::from_secs(1)).await;
    let refused = key.client.with_key(None).get(&format!("/v1/events/stream?ticket={ticket}")).await;
    refused.error(401, "API_KEY_REVOKED");
}

async fn a_ticket_opens_a_socket(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    let ticket = ticket(&client).await;
    let open = async || {
        let mut socket = Socket::open(&format!("{}/v1/stream?ticket={ticket}", client.base()), &[]).await.unwrap();
        assert_eq!(socket.next().await["op"], "welcome");
        socket
    };
    let mut first = open().await;
    let mut second = open().await;
    assert_eq!(first.closed(Duration::from_secs(2)).await, 4505);
    second.ask(&json!({"op": "subscribe", "sub": "a", "types": ["thesis.created"]})).await;
    let event = client.thesis("writer", "TICKET", "x").await.1;
    assert_eq!(second.next().await["event"], event);
    second.send(&json!({"op": "ping"})).await;
    assert_eq!(second.next_within(SOON).await["op"], "pong");
}

async fn tickets_are_refused_as_keys_are(service: &Service) {
    let client = service.test_client().await;
    let nobody = client.with_key(None);
    for wrong in ["x", "tkt_0123456789abcdef"] {
        nobody.get(&format!("/v1/events/stream?ticket={wrong}")).await.error(401, "INVALID_API_KEY");
        let url = format!("{}/v1/stream?ticket={wrong}", client.base());
        let (status, body): (u16, Value) = Socket::open(&url, &[]).await.err().expect("a refusal");
        assert_eq!((status, &body["error"]["code"]), (401, &json!("INVALID_API_KEY")));
    }
    let ticket = ticket(&client).await;
    // Nobody judges an `Authorization` beside a ticket.
    for both in [&client, &client.with_key(Some("svc_test_wrong")), &client.with_key(Some(""))] {
        both.get(&format!("/v1/events/stream?ticket={ticket}")).await.error(400, "INVALID_REQUEST");
    }
    let (url, basic) =
        (format!("{}/v1/stream?ticket={ticket}", client.base()), ("authorization", "Basic x".to_owned()));
    let (status, body): (u16, Value) = Socket::open(&url, &[basic]).await.err().expect("a refusal");
    assert_eq!((status, &body["error"]["code"]), (400, &json!("INVALID_REQUEST")));
    nobody.post("/v1/stream/tickets", &json!({})).await.error(401, "MISSING_API_KEY");
    client.post("/v1/stream/tickets", &json!({"extra": 1})).await.error(422, "VALIDATION_FAILED");
    let narrow = service.project().await.key(Environment::Test, &["theses:read"]).await;
    narrow.client.post("/v1/stream/tickets", &json!({})).await.error(403, "INSUFFICIENT_SCOPE");
    let once = client.post_once("/v1/stream/tickets", &json!({}), "tickets-1").await.ok(201);
    assert_eq!(client.post_once("/v1/stream/tickets", &json!({}), "tickets-1").await.ok(201), once);
}
