use serde_json::json;
use thesis_net::sse::Parser;

use super::*;

thesis_fuzz::fuzz_tests!(upstream_frames);

/// A feed is read to its end, with positions of few bytes and times up to five minutes ahead.
fn upstream_frames(input: &[u8]) {
    for frame in Parser::new(MAX_FRAME).read(input).into_iter().filter_map(|item| read(item, NOW)) {
        assert!(frame.position.is_none_or(|position| position.len() <= MAX_POSITION));
        let times: Vec<i64> = match frame.content {
            FrameContent::Open { now_ms } => vec![now_ms],
            FrameContent::Gap { since_ms } => vec![since_ms],
            FrameContent::Observations(observations) => observations.iter().filter_map(|one| one.revision).collect(),
            FrameContent::Refused(_) => Vec::new(),
        };
        assert!(times.iter().all(|time| (0..=NOW + 300_000).contains(time)), "{times:?}");
    }
}

/// 2024-02-29T12:00:00Z.
const NOW: i64 = 1_709_208_000_000;
const AT: &str = "2024-02-29T11:59:00.000Z";

fn event(id: Option<&str>, kind: &str, data: &str) -> StreamItem {
    StreamItem::Event(Event { id: id.map(Into::into), kind: kind.to_owned(), data: data.into() })
}

fn frame(kind: &str, data: &Value) -> Frame {
    read(event(Some("p1"), kind, &data.to_string()), NOW).unwrap()
}

fn refused(refusal: Refusal) -> FrameContent {
    FrameContent::Refused(refusal)
}

fn thesis() -> Value {
    json!({
        "id": "t1",
        "profile": {"id": "u1", "handle": "ana", "updated_at": AT},
        "token": {"chain": "base", "address": "0xAb", "symbol": "RUN", "updated_at": AT},
        "text": "up",
        "created_at": AT,
        "updated_at": AT,
    })
}

/// The things that a frame shows, by their names.
fn seen(frame: Frame) -> Vec<&'static str> {
    let observations = match frame.content {
        FrameContent::Observations(observations) => observations,
        other => panic!("{other:?}"),
    };
    let name = |observation: &Observation| {
        assert_eq!((observation.observed_at, observation.revision), (NOW, Some(NOW - 60_000)));
        match observation.seen {
            ObservedThing::Thesis(_) => "thesis",
            ObservedThing::Engagement(_) => "engagement",
            ObservedThing::Deletion(_) => "deletion",
            ObservedThing::Profile(_) => "profile",
            ObservedThing::Token(_) => "token",
            ObservedThing::Wallets(..) => "wallets",
        }
    };
    observations.iter().map(name).collect()
}

#[test]
fn each_type_says_its_thing() {
    let whole = thesis();
    let counts = json!({"id": "t1", "likes": 3, "replies": null, "updated_at": AT});
    for (kind, data, expected) in [
        ("thesis.created", &whole, vec!["thesis"]),
        ("thesis.updated", &whole, vec!["thesis"]),
        ("thesis.deleted", &whole, vec!["deletion", "thesis"]),
        ("thesis.deleted", &json!({"id": "t1", "updated_at": AT}), vec!["deletion"]),
        ("thesis.engagement", &counts, vec!["engagement"]),
        ("profile.updated", &whole["profile"], vec!["profile"]),
        ("token.updated", &whole["token"], vec!["token"]),
    ] {
        let frame = frame(kind, data);
        assert_eq!((frame.position.as_deref(), frame.kind), (Some("p1"), kind));
        assert_eq!(seen(frame), expected, "{kind}");
    }
    assert_eq!(frame("open", &json!({"now": AT})).content, FrameContent::Open { now_ms: NOW - 60_000 });
    assert_eq!(frame("gap", &json!({"since": AT})).content, FrameContent::Gap { since_ms: NOW - 60_000 });
    assert_eq!(read(StreamItem::Retry(1), NOW), None);
}

#[test]
fn garbage_is_refused_and_moves_the_position() {
    for (kind, data, refusal) in [
        ("open", "{}", Refusal::Field("now")),
        ("gap", r#"{"since":5}"#, Refusal::Field("since")),
        ("gap", r#"{"since":"2024-02-29T12:05:00.001Z"}"#, Refusal::Ahead),
        ("thesis.created", "", Refusal::Malformed),
        ("thesis.created", "{", Refusal::Malformed),
        ("thesis.created", "[]", Refusal::Malformed),
        ("thesis.created", "null", Refusal::Malformed),
        ("thesis.created", "{}", Refusal::Field("id")),
        ("thesis.engagement", "{}", Refusal::Field("updated_at")),
        ("profile.updated", "7", Refusal::Malformed),
    ] {
        let frame = read(event(Some("p1"), kind, data), NOW).unwrap();
        assert_eq!((frame.position.as_deref(), frame.kind), (Some("p1"), kind));
        assert_eq!(frame.content, refused(refusal), "{kind} {data}");
    }
    for kind in ["", "message", "Open", "thesis", "wallet.updated", "unknown"] {
        let frame = read(event(Some("p1"), kind, "no JSON"), NOW).unwrap();
        let expected =
            Frame { position: Some("p1".to_owned()), kind: "unknown", content: refused(Refusal::UnknownType) };
        assert_eq!(frame, expected);
    }
    let deep = "[".repeat(100_000);
    assert_eq!(read(event(None, "open", &deep), NOW).unwrap().content, refused(Refusal::Malformed));
    let bytes = StreamItem::Event(Event { id: None, kind: "open".to_owned(), data: b"{\"now\":\"\xff\"}".to_vec() });
    assert_eq!(read(bytes, NOW).unwrap().content, refused(Refusal::Malformed));
}

#[test]
fn a_frame_that_is_too_large_is_refused() {
    let item = StreamItem::TooLong { id: Some("p2".into()) };
    let expected = Frame { position: Some("p2".to_owned()), kind: "unknown", content: refused(Refusal::TooLarge) };
    assert_eq!(read(item, NOW), Some(expected));
    let mut data = json!({"now": AT}).to_string();
    data.push_str(&" ".repeat(MAX_FRAME - data.len()));
    assert_eq!(read(event(None, "open", &data), NOW).unwrap().content, FrameContent::Open { now_ms: NOW - 60_000 });
    data.push(' ');
    assert_eq!(read(event(None, "open", &data), NOW).unwrap().content, refused(Refusal::TooLarge));
}

#[test]
fn a_position_that_is_missing_or_wrong_does_not_move() {
    let data = json!({"now": AT}).to_string();
    let read = |id: Option<&str>| {
        let frame = read(event(id, "open", &data), NOW).unwrap();
        (frame.position, frame.content)
    };
    let open = || FrameContent::Open { now_ms: NOW - 60_000 };
    let longest = "é".repeat(128);
    assert_eq!(read(Some(&longest)), (Some(longest.clone()), open()));
    assert_eq!(read(Some(&format!("{longest}x"))), (None, refused(Refusal::Position)));
    for none in [None, Some("")] {
        assert_eq!(read(none), (None, open()));
    }
}
