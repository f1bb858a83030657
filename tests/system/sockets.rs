//! `GET /v1/stream`: WebSockets.

mod frames;

use std::time::Duration;

use serde_json::{Value, json};
use thesis_proto::v1::Environment;
use tokio_tungstenite::tungstenite::Message;

use crate::{
    examples::frames::assert_message,
    harness::{ALL_SCOPES, SOON, Service, Socket, assert_fields, eventually, ingest::token, text},
};

on_both_stores![
    events_arrive_as_on_other_transports,
    a_socket_has_several_subscriptions,
    a_socket_resumes_with_any_cursor,
    what_was_skipped_is_a_gap,
    wrong_requests_are_answered_and_the_socket_lives,
    what_is_wrong_at_the_handshake_gets_the_envelope,
    a_first_message_authenticates,
    lost_rights_close_the_socket,
    places_are_counted_with_other_streams,
];

const CREATED: [&str; 1] = ["thesis.created"];

fn subscribe(sub: &str, more: &Value) -> Value {
    let mut message = json!({"op": "subscribe", "rid": format!("r-{sub}"), "sub": sub});
    message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    message
}

async fn events_arrive_as_on_other_transports(service: &Service) {
    let client = service.test_client().await;
    let mut stream = client.stream("?types=thesis.created").await;
    let mut socket = client.socket().await;
    let subscribed = socket.ask(&subscribe("a", &json!({"types": CREATED}))).await;
    assert_fields(&subscribed, &["op", "rid", "sub", "cursor", "resumed", "replayed", "gap"]);
    assert_eq!(subscribed["op"], "subscribed");
    assert_eq!((&subscribed["rid"], &subscribed["sub"]), (&json!("r-a"), &json!("a")));
    assert_eq!(
        (&subscribed["resumed"], &subscribed["replayed"], &subscribed["gap"]),
        (&json!(false), &json!(0), &json!(false))
    );
    for number in 0..3 {
        let event = client.thesis("writer", "SOCKET", &format!("{number} \u{1f680}\n\"")).await.1;
        let told = socket.next().await;
        let frame = stream.next().await;
        assert_fields(&told, &["op", "sub", "cursor", "event"]);
        assert_eq!((&told["op"], &told["sub"], &told["event"]), (&json!("event"), &json!("a"), &event));
        assert_eq!((frame.cursor(), &frame.data), (text(&told, "cursor"), &event));
    }
    // What does not match moves the cursor too.
    let quiet = socket.ask(&json!({"op": "unsubscribe", "sub": "a"})).await;
    assert_eq!(quiet["op"], "unsubscribed");
    let narrow = socket.ask(&subscribe("b", &json!({"filters": {"token": ["$NOBODY"]}}))).await;
    client.thesis("writer", "SOCKET", "more").await;
    let heartbeat = socket.next_within(SOON).await;
    assert_fields(&heartbeat, &["op", "cursor"]);
    assert_eq!(heartbeat["op"], "heartbeat");
    assert_ne!(heartbeat["cursor"], narrow["cursor"]);
}

async fn a_socket_has_several_subscriptions(service: &Service) {
    let client = service.test_client().await;
    let mut socket = client.socket().await;
    socket.ask(&subscribe("ours", &json!({"types": CREATED, "filters": {"token": ["$OURS"]}}))).await;
    socket.ask(&subscribe("ann", &json!({"types": CREATED, "filters": {"handle": ["@Ann"]}}))).await;
    let both = client.thesis("ann", "OURS", "x").await.1;
    let mut told = [socket.next().await, socket.next().await];
    told.sort_by_key(|told| text(told, "sub").to_owned());
    assert_eq!(told.iter().map(|told| text(told, "sub")).collect::<Vec<_>>(), ["ann", "ours"]);
    assert!(told.iter().all(|told| told["event"] == both));
    let gone = socket.ask(&json!({"op": "unsubscribe", "rid": "u", "sub": "ann"})).await;
    assert_eq!(gone, json!({"op": "unsubscribed", "rid": "u", "sub": "ann"}));
    client.thesis("ann", "THEIRS", "x").await;
    let ours = client.thesis("bob", "OURS", "x").await.1;
    let told = socket.next().await;
    assert_eq!((&told["sub"], &told["event"]), (&json!("ours"), &ours));
    assert_eq!(socket.ask(&json!({"op": "ping", "rid": "p"})).await, json!({"op": "pong", "rid": "p"}));
}

async fn a_socket_resumes_with_any_cursor(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    let mut stream = client.stream("?types=thesis.created").await;
    let mut events = Vec::new();
    for number in 0..6 {
        events.push(client.thesis("writer", "ANY", &number.to_string()).await.1);
    }
    let seen = stream.take(6).await;
    let mut socket = client.socket().await;
    let resume = json!({"types": CREATED, "cursor": seen[1].cursor()});
    let subscribed = socket.ask(&subscribe("a", &resume)).await;
    assert_eq!((&subscribed["resumed"], &subscribed["replayed"]), (&json!(true), &json!(4)));
    let mut last = Value::Null;
    for event in &events[2..] {
        last = socket.next().await;
        assert_eq!(last["event"], *event);
    }
    // A cursor of the socket resumes another stream.
    events.push(client.thesis("writer", "ANY", "more").await.1);
    let mut resumed = client.resume("?types=thesis.created", text(&last, "cursor")).await;
    assert_eq!(resumed.next().await.data, events[6]);
    assert_eq!(socket.next().await["event"], events[6]);
    for wrong in ["x", "AAAA"] {
        let refused = socket.ask(&subscribe("b", &json!({"cursor": wrong}))).await;
        assert_eq!((&refused["op"], &refused["error"]["code"]), (&json!("error"), &json!("INVALID_CURSOR")));
    }
}

async fn what_was_skipped_is_a_gap(service: &Service) {
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let mut socket = client.socket().await;
    let start = text(&socket.ask(&subscribe("a", &json!({"types": CREATED}))).await, "cursor").to_owned();
    let said: Vec<String> = (0..1_003).map(|number| number.to_string()).collect();
    service.post_all(&project.dataset(), &token("sandbox", "gap-address", "GAP"), &said).await;
    let mut late = client.socket().await;
    let subscribed = late.ask(&subscribe("late", &json!({"types": CREATED, "cursor": start}))).await;
    assert_eq!((&subscribed["gap"], &subscribed["replayed"]), (&json!(true), &json!(1_000)));
    assert_eq!(subscribed["cursor"], start, "who breaks off here must learn of the gap again");
    let gap = late.next().await;
    assert_fields(&gap, &["op", "sub", "first_cursor", "last_cursor", "skipped", "path"]);
    assert_message(&client, &gap).await;
    assert_eq!((&gap["op"], &gap["sub"], &gap["skipped"]), (&json!("gap"), &json!("late"), &json!(3)));
    let texts: Vec<String> = {
        let mut texts = Vec::new();
        for _ in 0..1_000 {
            texts.push(text(&late.next().await["event"]["data"], "text").to_owned());
        }
        texts
    };
    assert_eq!(texts, said[3..]);
}

async fn wrong_requests_are_answered_and_the_socket_lives(service: &Service) {
    let client = service.test_client().await;
    let mut socket = client.socket().await;
    socket.ask(&subscribe("a", &json!({}))).await;
    for (wrong, param) in [
        (json!({}), "op"),
        (json!({"op": "open"}), "op"),
        (json!({"op": "auth", "key": client.key()}), "op"),
        (json!({"op": "ping", "extra": 1}), "extra"),
        (subscribe("a", &json!({})), "sub"),
        (subscribe("", &json!({})), "sub"),
        (subscribe("b", &json!({"types": ["thesis.gone"]})), "types"),
        (subscribe("b", &json!({"filters": {"token": ["$"]}})), "filters.token"),
        (subscribe("b", &json!({"filters": {"tokens": ["$A"]}})), "filters.tokens"),
        (subscribe("b", &json!({"cursor": "x".repeat(513)})), "cursor"),
        (json!({"op": "unsubscribe", "sub": "b"}), "sub"),
    ] {
        let refused = socket.ask(&wrong).await;
        assert_eq!(
            (&refused["op"], &refused["error"]["param"]),
            (&json!("error"), &json!(param)),
            "{wrong}: {refused}"
        );
        assert_eq!(refused["error"]["code"], "VALIDATION_FAILED");
        assert!(text(&refused["error"], "request_id").starts_with("req_"));
        assert_eq!(refused.get("rid"), wrong.get("rid"), "{wrong}");
    }
    for number in 1..16 {
        assert_eq!(socket.ask(&subscribe(&number.to_string(), &json!({"types": CREATED}))).await["op"], "subscribed");
    }
    let full = socket.ask(&subscribe("16", &json!({}))).await;
    assert_eq!((&full["op"], &full["error"]["param"]), (&json!("error"), &json!("sub")));
    socket.say(Message::text("[1]")).await;
    assert_eq!(socket.closed(SOON).await, 4501);
}

async fn what_is_wrong_at_the_handshake_gets_the_envelope(service: &Service) {
    let client = service.test_client().await;
    let project = service.project().await;
    let narrow = project.key(Environment::Test, &["theses:read"]).await;
    let bearer = |key: &str| ("authorization", format!("Bearer {key}"));
    let refused = async |headers: &[(&'static str, String)], query: &str| {
        let url = format!("{}/v1/stream{query}", client.base());
        let (status, body) = Socket::open(&url, headers).await.err().expect("a refusal");
        (status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    let unknown = format!("svc_test_{}", "0".repeat(40));
    assert_eq!(refused(&[bearer(&unknown)], "").await, (401, "INVALID_API_KEY".to_owned()));
    assert_eq!(refused(&[bearer(narrow.client.key())], "").await, (403, "INSUFFICIENT_SCOPE".to_owned()));
    assert_eq!(refused(&[bearer(client.key())], "?tickets=x").await, (422, "VALIDATION_FAILED".to_owned()));
    assert_eq!(refused(&[bearer(client.key())], "?ticket=x").await, (400, "INVALID_REQUEST".to_owned()));
    assert_eq!(refused(&[], "?key=x").await, (400, "INVALID_REQUEST".to_owned()));
    let mut plain = client.get("/v1/stream").await;
    plain.error(400, "INVALID_REQUEST");
    let version = client.request(reqwest::Method::GET, "/v1/stream").header("connection", "upgrade");
    let version = version.header("upgrade", "websocket").header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    plain = client.send(version.header("sec-websocket-version", "12")).await;
    assert_eq!((plain.status, plain.headers["sec-websocket-version"].to_str().unwrap()), (426, "13"));
    let socket = client.socket().await;
    assert!(socket.headers["x-service-request-id"].to_str().unwrap().starts_with("req_"));
    assert!(socket.headers.contains_key("x-ratelimit-limit"));
}

async fn a_first_message_authenticates(service: &Service) {
    let client = service.test_client().await;
    let project = service.project().await;
    let narrow = project.key(Environment::Test, &["theses:read"]).await;
    let url = format!("{}/v1/stream", client.base());
    let open = async || Socket::open(&url, &[]).await.unwrap();
    let mut socket = open().await;
    let welcome = socket.ask(&json!({"op": "auth", "key": client.key()})).await;
    assert_fields(&welcome, &["op", "connection_id", "heartbeat_s"]);
    assert_eq!((&welcome["op"], &welcome["heartbeat_s"]), (&json!("welcome"), &json!(15)));
    socket.ask(&subscribe("a", &json!({"types": CREATED}))).await;
    let event = client.thesis("writer", "FIRST", "x").await.1;
    assert_eq!(socket.next().await["event"], event);
    for (first, code) in [
        (json!({"op": "auth", "key": format!("svc_test_{}", "0".repeat(40))}), 4500),
        (json!({"op": "auth", "key": "no key\u{7f}"}), 4500),
        (json!({"op": "auth", "key": "<".repeat(3_000)}), 4500),
        (json!({"op": "auth", "key": "<".repeat(65_000)}), 4500),
        (json!({"op": "auth", "key": "<".repeat(65_536)}), 1009),
        (json!({"op": "auth", "key": narrow.client.key()}), 4503),
        (json!({"op": "auth"}), 4501),
        (subscribe("a", &json!({})), 4501),
    ] {
        let mut socket = open().await;
        socket.send(&first).await;
        assert_eq!(socket.closed(SOON).await, code, "{first}");
    }
    assert_eq!(open().await.closed(SOON).await, 4502);
}

async fn lost_rights_close_the_socket(service: &Service) {
    let project = service.project().await;
    let key = project.key(Environment::Test, ALL_SCOPES).await;
    let mut socket = key.client.socket().await;
    let mut idle = key.client.socket().await;
    socket.ask(&subscribe("a", &json!({}))).await;
    project.revoke(&key).await;
    for socket in [&mut socket, &mut idle] {
        assert_eq!(socket.closed(Duration::from_secs(1)).await, 4500);
    }
    let live = project.live().await;
    let mut socket = live.socket().await;
    project.withdraw().await;
    assert_eq!(socket.closed(Duration::from_secs(1)).await, 4500);
}

async fn places_are_counted_with_other_streams(service: &Service) {
    let project = service.project_on("free").await;
    let client = project.test().await;
    let stream = client.stream("").await;
    let mut socket = client.socket().await;
    client.get("/v1/events/stream").await.error(429, "STREAM_LIMIT_REACHED");
    let url = format!("{}/v1/stream", client.base());
    let header = ("authorization", format!("Bearer {}", client.key()));
    let (status, body) = Socket::open(&url, &[header]).await.err().expect("a refusal");
    assert_eq!((status, &body["error"]["code"]), (429, &json!("STREAM_LIMIT_REACHED")));
    let mut third = Socket::open(&url, &[]).await.unwrap();
    third.send(&json!({"op": "auth", "key": client.key()})).await;
    assert_eq!(third.closed(SOON).await, 4504);
    socket.say(Message::Close(None)).await;
    drop((socket, stream));
    eventually("both places are free", SOON, async || {
        let usage = client.get("/v1/me/usage").await.ok(200);
        (usage["streams"]["open"] == 0).then_some(())
    })
    .await;
}
