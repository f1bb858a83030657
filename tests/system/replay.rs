//! Replays of past events over every transport.

mod kills;

use std::time::Duration;

use prost::Message as _;
use reqwest::Method;
use serde_json::{Value, json};
use thesis_proto::{
    json::event_json,
    time::parse_iso8601,
    v1::{self, Environment, event_service_client::EventServiceClient, subscribe_response::Message},
};
use tokio::time::{Instant, timeout};
use tonic::{Code, Request, Streaming};

use crate::{
    examples::frames::{assert_frame, assert_message},
    harness::{ALL_SCOPES, Client, Frame, Key, SOON, Service, eventually, ingest::token, text},
};

on_both_stores![
    frames_are_those_of_live_delivery,
    messages_are_those_of_live_delivery,
    a_replay_ends_at_its_bound_over_every_transport,
    a_cursor_wins_over_the_beginning,
    more_than_a_thousand_are_replayed,
    nothing_is_missed_or_doubled_when_a_replay_goes_live,
    a_slow_replay_keeps_its_distances,
    a_quarter_of_the_streams_may_replay,
    what_is_no_replay_is_refused,
];

const CREATED: &str = "types=thesis.created";

/// The time of an event.
fn at(event: &Value) -> &str {
    text(event, "created_at")
}

/// Posts theses one after the other. Returns their events.
async fn post(client: &Client, symbol: &str, count: usize) -> Vec<Value> {
    let mut events = Vec::new();
    for number in 0..count {
        events.push(client.thesis("writer", symbol, &number.to_string()).await.1);
    }
    events
}

/// Reads a replay. Returns its frames, and the frame of its end apart.
async fn whole(client: &Client, query: &str) -> (Vec<Frame>, Frame) {
    let mut stream = client.stream(query).await;
    let mut frames = Vec::new();
    loop {
        let frame = stream.next().await;
        if frame.event == "stream.end" {
            assert!(timeout(SOON, stream.read()).await.unwrap().is_none(), "the stream closes");
            return (frames, frame);
        }
        frames.push(frame);
    }
}

fn data(frames: &[Frame]) -> Vec<Value> {
    frames.iter().map(|frame| frame.data.clone()).collect()
}

/// Returns the events that were created up to a time.
fn up_to(events: &[Value], to: &str) -> Vec<Value> {
    events.iter().filter(|event| at(event) <= to).cloned().collect()
}

async fn frames_are_those_of_live_delivery(service: &Service) {
    let client = service.project_on("huge").await.live().await;
    let mut stream = client.stream("?token=$RELIVED").await;
    let said: Vec<String> = (0..40).map(|number| format!("line\nand \u{1f680} {number}")).collect();
    service.post_all("live", &token("base", "0xre1", "RELIVED"), &said).await;
    let mut seen: Vec<Frame> = Vec::new();
    // All theses, and the derived events that cover them.
    while !seen.iter().any(|frame| frame.data["data"]["thesis_count_1h"] == 40) {
        seen.push(stream.next().await);
    }
    let from = at(&seen[0].data);
    for speed in ["", "&speed=max", "&speed=3600"] {
        let mut replayed = client.stream(&format!("?token=RELIVED&from={from}{speed}")).await;
        assert_eq!(replayed.take(seen.len()).await, seen, "{speed}");
    }
}

/// Subscribes over gRPC.
async fn subscribe(service: &Service, key: &Key, request: v1::SubscribeRequest) -> Streaming<v1::SubscribeResponse> {
    let mut request = Request::new(request);
    request.metadata_mut().insert("authorization", format!("Bearer {}", key.raw).parse().unwrap());
    EventServiceClient::new(service.first_core()).subscribe(request).await.unwrap().into_inner()
}

/// Reads the next events of a subscription over gRPC. Returns their messages, encoded.
async fn next_encoded(stream: &mut Streaming<v1::SubscribeResponse>, count: usize) -> Vec<Vec<u8>> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let response = timeout(SOON, stream.message()).await.unwrap().unwrap().unwrap();
        if matches!(response.message, Some(Message::Event(_))) {
            messages.push(response.encode_to_vec());
        }
    }
    messages
}

/// WebSocket and gRPC, in which cursor and event share a message.
async fn messages_are_those_of_live_delivery(service: &Service) {
    let said: Vec<String> = (0..20).map(|number| format!("line\nand \u{1f680} {number}")).collect();
    let project = service.project_on("huge").await;
    project.approve().await;
    let key = project.key(Environment::Live, ALL_SCOPES).await;
    let wanted = json!({"op": "subscribe", "sub": "a", "types": ["thesis.created"], "filters": {"token": ["RETOLD"]}});
    let request = v1::SubscribeRequest {
        types: vec![v1::EventType::ThesisCreated.into()],
        filters: Some(v1::EventFilters { token: vec!["RETOLD".to_owned()], ..v1::EventFilters::default() }),
        ..v1::SubscribeRequest::default()
    };
    let mut socket = key.client.socket().await;
    assert_eq!(socket.ask(&wanted).await["op"], "subscribed");
    let mut stream = subscribe(service, &key, request.clone()).await;
    service.post_all("live", &token("base", "0xre2", "RETOLD"), &said).await;
    let mut texts = Vec::new();
    while texts.len() < said.len() {
        texts.push(socket.next_text().await);
    }
    let messages = next_encoded(&mut stream, said.len()).await;

    let first: Value = serde_json::from_str(&texts[0]).unwrap();
    let from = at(&first["event"]);
    let mut replay = wanted.clone();
    replay["from"] = json!(from);
    let mut socket = key.client.socket().await;
    assert_eq!(socket.ask(&replay).await["op"], "subscribed");
    for text in &texts {
        assert_eq!(socket.next_text().await, *text);
    }
    let mut stream = subscribe(service, &key, v1::SubscribeRequest { from: parse_iso8601(from), ..request }).await;
    assert_eq!(next_encoded(&mut stream, said.len()).await, messages);
}

/// Reads a subscription over gRPC until it ends. Returns its events and its last cursor.
async fn over_grpc(service: &Service, key: &Key, request: v1::SubscribeRequest) -> (Vec<Value>, String) {
    let mut stream = subscribe(service, key, request).await;
    let (mut events, mut cursor) = (Vec::new(), String::new());
    while let Some(response) = timeout(SOON, stream.message()).await.unwrap().unwrap() {
        match response.message.unwrap() {
            Message::Event(sent) => {
                events.push(serde_json::from_slice(&event_json(&sent.event.unwrap())).unwrap());
                cursor = sent.cursor;
            }
            Message::Heartbeat(heartbeat) => cursor = heartbeat.cursor,
            Message::Gap(gap) => panic!("{gap:?}"),
        }
    }
    (events, cursor)
}

async fn a_replay_ends_at_its_bound_over_every_transport(service: &Service) {
    let key = service.project_on("huge").await.key(Environment::Test, ALL_SCOPES).await;
    let client = &key.client;
    let events = post(client, "BOUNDED", 6).await;
    // Events of another token are within the bounds too.
    post(client, "OTHER", 2).await;
    let (from, to) = (at(&events[1]), at(&events[3]));
    let expected: Vec<Value> = up_to(&events, to).into_iter().filter(|event| at(event) >= from).collect();
    let query = format!("?{CREATED}&token=BOUNDED&from={from}&to={to}");
    let (frames, end) = whole(client, &query).await;
    assert_eq!(data(&frames), expected);
    assert_frame(client, &end.event, &end.data).await;
    assert_eq!(end.data["cursor"], end.cursor());

    // A client that resumes after the end gets no more events.
    let request = client.request(Method::GET, &format!("/v1/events/stream{query}"));
    let nothing = request.header("last-event-id", end.cursor()).send().await.unwrap();
    assert_eq!(nothing.status(), 204);
    assert!(nothing.bytes().await.unwrap().is_empty());
    // The same cursor without a replay opens a live stream.
    let mut live = client.resume(&format!("?{CREATED}&token=BOUNDED"), end.cursor()).await;
    let next = events.iter().find(|event| at(event) > to).expect("events after the bound");
    assert_eq!(live.next().await.data, *next);

    let mut socket = client.socket().await;
    let filters = json!({"token": ["BOUNDED"]});
    let mut subscribe =
        json!({"op": "subscribe", "sub": "a", "types": ["thesis.created"], "filters": filters, "from": from, "to": to});
    let subscribed = socket.ask(&subscribe).await;
    assert_eq!((&subscribed["op"], &subscribed["resumed"]), (&json!("subscribed"), &json!(false)));
    for event in &expected {
        assert_eq!(socket.next().await["event"], *event);
    }
    let ended = socket.next().await;
    assert_eq!((text(&ended, "op"), text(&ended, "sub"), text(&ended, "cursor")), ("ended", "a", end.cursor()));
    assert_message(client, &ended).await;
    // The subscription's name is free again, and a subscription after the end ends at once.
    subscribe["cursor"] = json!(end.cursor());
    assert_eq!(socket.ask(&subscribe).await["op"], "subscribed");
    assert_eq!(socket.next().await["op"], "ended");

    let request = v1::SubscribeRequest {
        types: vec![v1::EventType::ThesisCreated.into()],
        filters: Some(v1::EventFilters { token: vec!["BOUNDED".to_owned()], ..v1::EventFilters::default() }),
        from: parse_iso8601(from),
        to: parse_iso8601(to),
        ..v1::SubscribeRequest::default()
    };
    let (sent, cursor) = over_grpc(service, &key, request.clone()).await;
    assert_eq!((sent, cursor.as_str()), (expected, end.cursor()));
    let (sent, _) = over_grpc(service, &key, v1::SubscribeRequest { cursor: Some(cursor), ..request }).await;
    assert!(sent.is_empty());
}

async fn a_cursor_wins_over_the_beginning(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    let events = post(&client, "AGAIN", 8).await;
    let (from, to) = (at(&events[2]), at(&events[7]));
    let query = format!("?{CREATED}&token=AGAIN&from={from}&to={to}");
    let (frames, _) = whole(&client, &query).await;
    let first = events.len() - frames.len();
    for (position, frame) in frames.iter().enumerate().take(frames.len() - 1) {
        let mut resumed = client.resume(&query, frame.cursor()).await;
        let rest = resumed.take(frames.len() - position - 1).await;
        assert_eq!(data(&rest), events[first + position + 1..]);
        assert_eq!(resumed.next().await.event, "stream.end");
    }
    // A cursor from before `from` takes precedence too.
    let mut early = client.stream(&format!("?{CREATED}&token=AGAIN")).await;
    let before = early.first_cursor().await;
    let more = post(&client, "AGAIN", 2).await;
    let query = format!("?{CREATED}&token=AGAIN&from={}&from_cursor={before}", at(&more[1]));
    assert_eq!(data(&client.stream(&query).await.take(2).await), more);
}

async fn more_than_a_thousand_are_replayed(service: &Service) {
    const MANY: usize = 1_300;
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let first = post(&client, "CROWD", 1).await.remove(0);
    let said: Vec<String> = (0..MANY).map(|number| number.to_string()).collect();
    service.post_all(&project.dataset(), &token("sandbox", "crowd-address", "CROWD"), &said).await;
    let mut stream = client.stream(&format!("?{CREATED}&token=CROWD&from={}", at(&first))).await;
    assert_eq!(stream.next().await.data, first);
    let texts: Vec<String> =
        stream.take(MANY).await.iter().map(|frame| text(&frame.data["data"], "text").to_owned()).collect();
    assert_eq!(texts, said);
}

async fn nothing_is_missed_or_doubled_when_a_replay_goes_live(service: &Service) {
    const BEFORE: usize = 600;
    const CONCURRENT: usize = 60;
    let project = service.project_on("huge").await;
    let client = project.test().await;
    let first = post(&client, "JOINED", 1).await.remove(0);
    let said: Vec<String> = (0..BEFORE).map(|number| number.to_string()).collect();
    service.post_all(&project.dataset(), &token("sandbox", "joined-address", "JOINED"), &said).await;
    let writer = client.clone();
    let writing = tokio::spawn(async move { post(&writer, "JOINED", CONCURRENT).await });
    let query = format!("?{CREATED}&token=JOINED&from={}", at(&first));
    let mut streams = Vec::new();
    for speed in ["", "", "&speed=1000"] {
        streams.push(client.stream(&format!("{query}{speed}")).await);
    }
    let mut ids: Vec<Vec<String>> = Vec::new();
    for stream in &mut streams {
        let frames = stream.take(1 + BEFORE + CONCURRENT).await;
        ids.push(frames.iter().map(|frame| text(&frame.data, "id").to_owned()).collect());
    }
    writing.await.unwrap();
    let listed = client.all(&format!("/v1/events?{CREATED}&token=JOINED&limit=100")).await;
    let expected: Vec<&str> = listed.iter().rev().map(|event| text(event, "id")).collect();
    for ids in &ids {
        assert_eq!(*ids, expected);
    }
    // Then they are live.
    let next = post(&client, "JOINED", 1).await.remove(0);
    for stream in &mut streams {
        assert_eq!(stream.next().await.data, next);
    }
}

async fn a_slow_replay_keeps_its_distances(service: &Service) {
    let client = service.project_on("huge").await.test().await;
    let events = post(&client, "PACED", 12).await;
    let ms = |event: &Value| {
        let time = parse_iso8601(at(event)).unwrap();
        time.seconds * 1_000 + i64::from(time.nanos) / 1_000_000
    };
    let query = format!("?{CREATED}&token=PACED&from={}&speed=0.1", at(&events[0]));
    let began = Instant::now();
    let mut stream = client.stream(&query).await;
    for event in &events {
        assert_eq!(stream.next().await.data, *event);
        // On a busy machine an event may come late, so only an early event is an error.
        let due = Duration::from_millis(u64::try_from(10 * (ms(event) - ms(&events[0]))).unwrap());
        assert!(began.elapsed() >= due, "{:?} instead of {due:?}", began.elapsed());
    }
}

async fn a_quarter_of_the_streams_may_replay(service: &Service) {
    // Its plan allows two streams.
    let client = service.project_on("free").await.test().await;
    let event = post(&client, "QUARTER", 1).await.remove(0);
    let slow = format!("?{CREATED}&token=QUARTER&from={}&speed=1", at(&event));
    let mut replaying = client.stream(&slow).await;
    assert_eq!(replaying.next().await.data, event);
    let error = client.get(&format!("/v1/events/stream{slow}")).await.error(429, "STREAM_LIMIT_REACHED");
    assert_eq!((&error["details"]["limit"], &error["details"]["open"]), (&json!(1), &json!(1)));
    assert!(text(&error, "message").contains("replays"), "{error}");
    // Another core may count the slot of the refused stream for a moment.
    let opened = async |query: &str| {
        let request = || client.request(Method::GET, &format!("/v1/events/stream{query}"));
        eventually("a stream may open", SOON, async || {
            let response = request().send().await.unwrap();
            (response.status() == 200).then_some(response)
        })
        .await
    };
    // The other slot can take a live stream.
    drop(opened(&format!("?{CREATED}&token=QUARTER")).await);
    drop(replaying);
    // A replay that has become live releases its slot for another replay.
    let fast = format!("?{CREATED}&token=QUARTER&from={}", at(&event));
    let became_live = opened(&fast).await;
    let another = opened(&fast).await;
    drop((became_live, another));
}

async fn what_is_no_replay_is_refused(service: &Service) {
    let key = service.project_on("huge").await.key(Environment::Test, ALL_SCOPES).await;
    let client = &key.client;
    let event = post(client, "WRONG", 1).await.remove(0);
    let from = at(&event);
    let before = "2001-01-01T00:00:00Z";
    for (query, field) in [
        ("from=yesterday".to_owned(), "from"),
        ("from=2999-01-01T00:00:00Z".to_owned(), "from"),
        (format!("from={from}&to=2999-01-01T00:00:00Z"), "to"),
        (format!("from={from}&to={before}"), "to"),
        (format!("from={from}&to=never"), "to"),
        (format!("to={from}"), "to"),
        ("speed=2".to_owned(), "speed"),
        (format!("from={from}&speed=0"), "speed"),
        (format!("from={from}&speed=-1"), "speed"),
        (format!("from={from}&speed=3601"), "speed"),
        (format!("from={from}&speed=fast"), "speed"),
        (format!("from={from}&from={from}"), "from"),
    ] {
        client.get(&format!("/v1/events/stream?{query}")).await.invalid(&[field]);
    }
    client.get("/v1/events/stream?from=2001-01-01T00:00:00Z").await.error(403, "HISTORY_LIMIT");
    let wrong = format!("from={from}&from_cursor=nonsense");
    client.get(&format!("/v1/events/stream?{wrong}")).await.error(400, "INVALID_CURSOR");

    let mut socket = client.socket().await;
    for (more, field) in [
        (json!({"from": from, "speed": 0}), "speed"),
        (json!({"from": from, "speed": "2"}), "speed"),
        (json!({"from": from, "to": before}), "to"),
        (json!({"to": from}), "to"),
        (json!({"from": 5}), "from"),
    ] {
        let mut message = json!({"op": "subscribe", "sub": "a"});
        message.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let refused = socket.ask(&message).await;
        assert_eq!(refused["error"]["param"], field, "{refused}");
    }
    let mut events = EventServiceClient::new(service.first_core());
    for speed in [0.0, -1.0, f64::NAN] {
        let from = parse_iso8601(from);
        let mut request = Request::new(v1::SubscribeRequest { from, speed: Some(speed), ..Default::default() });
        request.metadata_mut().insert("authorization", format!("Bearer {}", key.raw).parse().unwrap());
        assert_eq!(events.subscribe(request).await.err().unwrap().code(), Code::InvalidArgument, "{speed}");
    }
    // Refused replays hold no slot.
    eventually("all places are free", SOON, async || {
        (client.get("/v1/me/usage").await.ok(200)["streams"]["open"] == 1).then_some(())
    })
    .await;
    drop(socket);
}
