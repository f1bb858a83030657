//! Messages match the API's description.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use thesis_proto::v1;

use super::*;
use crate::tests::description::{document, shape};

thesis_fuzz::fuzz_tests!(websocket_messages);

/// A message's error fits into a response, and names the request only by a short id.
fn websocket_messages(input: &[u8]) {
    let Some(request) = ClientRequest::read(&Bytes::copy_from_slice(input)) else { return };
    assert!(request.rid.as_ref().is_none_or(|rid| rid.chars().count() <= 64));
    if let Err(error) = request.operation {
        assert!((1..=45).contains(&error.field_errors().count()), "{error:?}");
        let text = error_message(request.rid.as_deref(), json::Error::new(&error, "req_1"));
        let answer: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(answer["rid"].as_str(), request.rid.as_deref());
    }
}

/// The fields and the required fields in the schema of messages with this `op`.
fn described(kind: &str, op: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let document = document();
    let reference = &document["components"]["schemas"][kind]["discriminator"]["mapping"][op];
    let reference = reference.as_str().unwrap_or_else(|| panic!("{kind} has no {op}"));
    shape(&document, document.pointer(&reference[1..]).unwrap())
}

fn described_ops(kind: &str) -> BTreeSet<String> {
    let document = document();
    let mapping = document["components"]["schemas"][kind]["discriminator"]["mapping"].as_object().unwrap();
    mapping.keys().cloned().collect()
}

fn read(text: &str) -> Option<ClientRequest> {
    ClientRequest::read(&Bytes::copy_from_slice(text.as_bytes()))
}

fn refused(text: &str) -> (Option<String>, Vec<String>) {
    let request = read(text).unwrap();
    let Err(error) = request.operation else { panic!("{text} is no error") };
    (request.rid, error.field_errors().map(|error| error.param).collect())
}

#[test]
fn what_is_no_object_is_no_message() {
    for text in ["", "x", "1", "[]", "null", "\"ping\"", "{\"op\":\"ping\"", "{} {}"] {
        assert!(read(text).is_none(), "{text}");
    }
}

#[test]
fn messages_are_read() {
    let request = read(
        r#"{"op":"subscribe","rid":"7","sub":"a","types":["thesis.created"],"filters":{"token":["$RUN"]},"cursor":"c",
        "from":"1970-01-01T00:00:05Z","to":"1970-01-01T00:00:06Z","speed":2.5}"#,
    );
    let request = request.unwrap();
    assert_eq!(request.rid.as_deref(), Some("7"));
    let Ok(Operation::Subscribe { sub, opening }) = request.operation else { panic!("subscribe") };
    let v1::OpenRequest { types, filters, cursor, from, to, speed, .. } = *opening;
    assert_eq!((sub.as_str(), types, cursor.as_deref()), ("a", vec![1], Some("c")));
    assert_eq!(filters.unwrap().token, ["$RUN"]);
    assert_eq!((from.unwrap().seconds, to.unwrap().seconds, speed), (5, 6, Some(2.5)));
    let Ok(Operation::Subscribe { opening, .. }) =
        read(r#"{"op":"subscribe","sub":"a","from":"1970-01-01T00:00:05Z","speed":"max"}"#).unwrap().operation
    else {
        panic!("subscribe")
    };
    assert!(opening.from.is_some() && opening.speed.is_none());
    assert!(matches!(read(r#"{"op":"ping"}"#).unwrap().operation, Ok(Operation::Ping)));
    let Ok(Operation::Auth { key }) = read(r#"{"op":"auth","key":"k"}"#).unwrap().operation else { panic!("auth") };
    assert_eq!(key, "k");
}

#[test]
fn wrong_requests_name_every_bad_field() {
    let bad = |text| refused(text).1;
    assert_eq!(bad("{}"), ["op"]);
    assert_eq!(bad(r#"{"op":1}"#), ["op"]);
    assert_eq!(bad(r#"{"op":"open"}"#), ["op"]);
    assert_eq!(bad(r#"{"op":"subscribe"}"#), ["sub"]);
    assert_eq!(bad(r#"{"op":"subscribe","sub":""}"#), ["sub"]);
    assert_eq!(bad(r#"{"op":"subscribe","sub":1,"types":"x","filters":[]}"#), ["sub", "types", "filters"]);
    assert_eq!(bad(r#"{"op":"subscribe","sub":"a","types":["x"],"tokens":1}"#), ["types", "tokens"]);
    assert_eq!(bad(r#"{"op":"subscribe","sub":"a","filters":{"user":["x"]}}"#), ["filters.user"]);
    assert_eq!(bad(r#"{"op":"subscribe","sub":"a","from":5,"to":"x","speed":"1"}"#), ["from", "to", "speed"]);
    assert_eq!(bad(r#"{"op":"auth"}"#), ["key"]);
    assert_eq!(bad(&format!(r#"{{"op":"unsubscribe","sub":"{}"}}"#, "x".repeat(65))), ["sub"]);
    assert_eq!(refused(r#"{"op":"nothing","rid":"9"}"#).0.as_deref(), Some("9"));
    assert_eq!(refused(&format!(r#"{{"op":"nothing","rid":"{}"}}"#, "9".repeat(65))).0, None);
    assert_eq!(refused(r#"{"op":"ping","rid":9}"#), (None, vec!["rid".to_owned()]));
}

#[test]
fn messages_are_json() {
    let text: Value = serde_json::from_slice(&event_message("a\"", "c", b"{\"id\":1}")).unwrap();
    assert_eq!(text, json!({"op": "event", "sub": "a\"", "cursor": "c", "event": {"id": 1}}));
    let welcome: Value =
        serde_json::from_slice(&ServerMessage::Welcome { connection_id: "x", heartbeat_s: 15 }.text()).unwrap();
    assert_eq!(welcome, json!({"op": "welcome", "connection_id": "x", "heartbeat_s": 15}));
    let failed: Value =
        serde_json::from_slice(&error_message(None, json::Error::new(&ApiError::unavailable(), "req_1"))).unwrap();
    assert_eq!((&failed["op"], &failed["error"]["request_id"]), (&json!("error"), &json!("req_1")));
    assert!(failed.get("rid").is_none());
}

#[test]
fn requests_are_described() {
    let ops: BTreeSet<String> = OPERATIONS.iter().map(|(op, _)| (*op).to_owned()).collect();
    assert_eq!(ops, described_ops("WebSocketRequest"));
    for (op, fields) in OPERATIONS {
        let all: BTreeSet<String> = fields.iter().map(|field| field.name.to_owned()).collect();
        let required = fields.iter().filter(|field| field.required).map(|field| field.name.to_owned()).collect();
        assert_eq!(described("WebSocketRequest", op), (all, required), "{op}");
    }
}

#[test]
fn the_examples_of_requests_are_accepted() {
    let document = document();
    for part in document["components"]["schemas"]["WebSocketRequest"]["oneOf"].as_array().unwrap() {
        let schema = document.pointer(&part["$ref"].as_str().unwrap()[1..]).unwrap();
        for example in schema["examples"].as_array().unwrap() {
            assert!(read(&example.to_string()).unwrap().operation.is_ok(), "{example}");
        }
    }
}

/// All kinds of messages. Optional fields are present if there is a `rid`.
fn messages(rid: Option<&str>) -> Vec<Vec<u8>> {
    let (sub, cursor) = ("a", "c");
    let gap = v1::StreamGap { first_cursor: "a".into(), last_cursor: "b".into(), path: "/".into(), skipped: Some(7) };
    let error = ApiError::internal();
    let messages = [
        ServerMessage::Welcome { connection_id: "x", heartbeat_s: 15 },
        ServerMessage::Subscribed { rid, sub, cursor, resumed: true, replayed: 1, gap: true },
        ServerMessage::Gap { sub, gap: json::StreamGap::from(&gap) },
        ServerMessage::Ended { sub, cursor },
        ServerMessage::Unsubscribed { rid, sub },
        ServerMessage::Heartbeat { cursor: rid },
        ServerMessage::Pong { rid },
        ServerMessage::Error { rid, error: json::Error::new(&error, "req_1") },
    ];
    // A new kind breaks this match and belongs into the list above.
    let text = |message: &ServerMessage<'_>| match message {
        ServerMessage::Welcome { .. }
        | ServerMessage::Subscribed { .. }
        | ServerMessage::Gap { .. }
        | ServerMessage::Ended { .. }
        | ServerMessage::Unsubscribed { .. }
        | ServerMessage::Heartbeat { .. }
        | ServerMessage::Pong { .. }
        | ServerMessage::Error { .. } => message.text(),
    };
    messages.iter().map(text).chain([event_message(sub, cursor, b"{}")]).collect()
}

#[test]
fn messages_are_described() {
    let mut ops = BTreeSet::new();
    for (full, bare) in messages(Some("1")).iter().zip(messages(None)) {
        let [full, bare] = [full, &bare].map(|text| serde_json::from_slice::<Value>(text).unwrap());
        let keys = |message: &Value| message.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        let op = full["op"].as_str().unwrap();
        assert_eq!(described("WebSocketMessage", op), (keys(&full), keys(&bare)), "{op}");
        ops.insert(op.to_owned());
    }
    assert_eq!(ops, described_ops("WebSocketMessage"));
}

#[test]
fn names_may_be_as_long_as_described() {
    let document = document();
    for part in document["components"]["schemas"]["WebSocketRequest"]["oneOf"].as_array().unwrap() {
        let schema = document.pointer(&part["$ref"].as_str().unwrap()[1..]).unwrap();
        for name in ["rid", "sub"] {
            let Some(max) = schema["properties"][name]["maxLength"].as_u64() else { continue };
            let max = usize::try_from(max).unwrap();
            for (length, is_read) in [(max, true), (max + 1, false)] {
                let mut request = schema["examples"][0].clone();
                request[name] = json!("x".repeat(length));
                assert_eq!(read(&request.to_string()).unwrap().operation.is_ok(), is_read, "{request}");
            }
        }
    }
}
