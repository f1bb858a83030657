//! Frames of streams and messages of WebSockets are as their schemas and examples say.

use std::collections::BTreeSet;

use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{compare, schema::assert_fits};
use crate::harness::{Client, SOON, Service, Socket, text};

on_both_stores![frames_are_as_described, messages_are_as_described];

async fn document(client: &Client) -> Value {
    client.get("/v1/openapi.json").await.ok(200)
}

/// Demands that the data of a frame of this type is as its schema says.
pub(crate) async fn assert_frame(client: &Client, event: &str, data: &Value) {
    let document = document(client).await;
    let schema = &document["paths"]["/v1/events/stream"]["get"]["x-event-stream"][event];
    assert!(schema.is_object(), "{event} is not described");
    assert_fits(&document, schema, data, event);
}

/// Demands that a message of the service is as its schema and its example say.
pub(crate) async fn assert_message(client: &Client, message: &Value) {
    let document = document(client).await;
    let schemas = &document["components"]["schemas"];
    let op = text(message, "op");
    assert_fits(&document, &schemas["WebSocketMessage"], message, op);
    compare(op, example(&document, "WebSocketMessage", op), message);
}

/// The example of a message.
fn example<'a>(document: &'a Value, kind: &str, op: &str) -> &'a Value {
    let reference = &document["components"]["schemas"][kind]["discriminator"]["mapping"][op];
    let schema = document.pointer(&reference.as_str().unwrap()[1..]).unwrap();
    &schema["examples"][0]
}

/// The names of a frame's lines, in their order.
fn lines(frame: &str) -> Vec<&str> {
    frame.lines().map(|line| line.split_once(": ").unwrap_or((line, "")).0).collect()
}

/// A line of a frame.
fn line<'a>(frame: &'a str, name: &str) -> &'a str {
    let found = frame.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    found.unwrap_or_else(|| panic!("no {name} in {frame}"))
}

/// The next frame of a stream as it is sent.
async fn next(response: &mut Response, unread: &mut String) -> String {
    loop {
        if let Some((frame, rest)) = unread.split_once("\n\n") {
            let frame = frame.to_owned();
            *unread = rest.to_owned();
            return frame;
        }
        let chunk = timeout(SOON, response.chunk()).await.unwrap().unwrap().unwrap();
        unread.push_str(str::from_utf8(&chunk).unwrap());
    }
}

async fn frames_are_as_described(service: &Service) {
    let client = service.test_client().await;
    let document = document(&client).await;
    let answer = &document["paths"]["/v1/events/stream"]["get"]["responses"]["200"];
    let told = text(&answer["content"]["text/event-stream"], "example");
    let told: Vec<&str> = told.split_terminator("\n\n").collect();
    // The example has a gap too, which another test makes.
    let [first, _, event, ping] = told[..] else { panic!("{told:?}") };
    let path = "/v1/events/stream?types=thesis.created&token=EXAMPLE";
    let (mut response, mut unread) = (client.request(Method::GET, path).send().await.unwrap(), String::new());
    for (number, example) in [first, event, ping].into_iter().enumerate() {
        if number == 1 {
            client.thesis("writer", "EXAMPLE", "x").await;
        }
        let real = next(&mut response, &mut unread).await;
        assert_eq!(lines(&real), lines(example), "{real}");
        let kind = line(&real, "event");
        assert_eq!(kind, line(example, "event"));
        let [told, data] = [example, &real].map(|frame| serde_json::from_str::<Value>(line(frame, "data")).unwrap());
        compare(kind, &told, &data);
        assert_frame(&client, kind, &data).await;
    }
}

/// The next message of this kind; others are passed over.
async fn hear(socket: &mut Socket, op: &str) -> Value {
    loop {
        let message = socket.next_within(SOON).await;
        if message["op"] == op {
            return message;
        }
    }
}

async fn messages_are_as_described(service: &Service) {
    let client = service.test_client().await;
    let document = document(&client).await;
    let mut socket = Socket::open(&format!("{}/v1/stream", client.base()), &[]).await.unwrap();
    let request = |op: &str| {
        let mut request = example(&document, "WebSocketRequest", op).clone();
        if op == "auth" {
            request["key"] = json!(client.key());
        }
        request
    };
    // Tests of gaps and replays compare these.
    let mut received = BTreeSet::from(["ended", "gap"]);
    for (asked, op) in [
        (Some("auth"), "welcome"),
        (Some("subscribe"), "subscribed"),
        // The name is taken now.
        (Some("subscribe"), "error"),
        (Some("ping"), "pong"),
        (None, "event"),
        (None, "heartbeat"),
        (Some("unsubscribe"), "unsubscribed"),
    ] {
        match asked {
            Some(asked) => socket.send(&request(asked)).await,
            None if op == "event" => drop(client.thesis("writer", "RUN", "x").await),
            None => {}
        }
        let message = hear(&mut socket, op).await;
        assert_message(&client, &message).await;
        if op == "error" {
            let told = &example(&document, "WebSocketMessage", op)["error"];
            assert_eq!((&message["error"]["message"], &message["error"]["param"]), (&told["message"], &told["param"]));
        }
        received.insert(op);
    }
    let mapping = document["components"]["schemas"]["WebSocketMessage"]["discriminator"]["mapping"].as_object();
    assert_eq!(received, mapping.unwrap().keys().map(String::as_str).collect());
}
