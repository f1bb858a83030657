mod lists;
mod mutations;

use serde_json::json;

use super::*;

/// 2024-02-29T12:00:00Z.
const NOW: i64 = 1_709_208_000_000;
const MINUTE: i64 = 60_000;

/// Written with everything that an upstream may know besides.
fn whole() -> Value {
    json!({
        "id": "t1",
        "profile": {
            "id": "u1",
            "handle": "@Ana",
            "display_name": "Ana",
            "avatar_url": "https://img.example/ana.png",
            "profile_url": "http://example.com/ana",
            "bio": "one\ntwo",
            "verified": true,
            "created_at": "2020-01-01T00:00:00.000Z",
            "updated_at": "2024-02-29T11:57:00.000Z",
            "email": "ana@example.com",
            "balance": 7,
        },
        "token": {
            "chain": "base",
            "address": "0xAbC",
            "symbol": "$stETH",
            "name": "Staked",
            "chain_id": 8453,
            "logo_url": "https://img.example/steth.png",
            "platform_url": "https://example.com/steth",
            "updated_at": "2024-02-29T11:56:00.000Z",
            "pnl": 1.5,
        },
        "text": "It goes up 🚀",
        "likes": 3,
        "replies": 0,
        "created_at": "2024-02-29T11:58:00.000Z",
        "updated_at": "2024-02-29T11:59:00.000Z",
        "position": {"size": 5},
    })
}

/// The whole thesis as it is seen.
fn expected() -> ObservedThesis {
    let some = |text: &str| Some(text.to_owned());
    ObservedThesis {
        upstream_id: "t1".to_owned(),
        profile: ObservedProfile {
            upstream_id: "u1".to_owned(),
            handle: "Ana".to_owned(),
            display_name: some("Ana"),
            avatar_url: some("https://img.example/ana.png"),
            profile_url: some("http://example.com/ana"),
            bio: some("one\ntwo"),
            verified: Some(true),
            created_at: Some(1_577_836_800_000),
            source_updated_at: Some(NOW - 3 * MINUTE),
            wallets: None,
            revision: Some(NOW - 3 * MINUTE),
        },
        token: ObservedToken {
            chain: "base".to_owned(),
            address: "0xAbC".to_owned(),
            symbol: "stETH".to_owned(),
            name: some("Staked"),
            chain_id: Some(8_453),
            logo_url: some("https://img.example/steth.png"),
            platform_url: some("https://example.com/steth"),
            source_updated_at: Some(NOW - 4 * MINUTE),
            revision: Some(NOW - 4 * MINUTE),
        },
        text: "It goes up 🚀".to_owned(),
        likes: Some(3),
        replies: Some(0),
        created_at: NOW - 2 * MINUTE,
        updated_at: NOW - MINUTE,
    }
}

/// Puts a value at a path, or takes it away.
fn change(value: &mut Value, path: &[&str], new: Option<Value>) {
    let Some((last, parents)) = path.split_last() else { return };
    let mut at = value;
    for name in parents {
        match at.get_mut(*name) {
            Some(inner) => at = inner,
            None => return,
        }
    }
    if let Some(object) = at.as_object_mut() {
        match new {
            Some(new) => object.insert((*last).to_owned(), new),
            None => object.remove(*last),
        };
    }
}

fn with(path: &[&str], new: Value) -> Value {
    let mut value = whole();
    change(&mut value, path, Some(new));
    value
}

/// The thesis in an object that is none of a tombstone.
fn seen(value: &Value) -> Result<ObservedThesis, Refusal> {
    let mut observations = thesis(value, NOW)?;
    assert_eq!(observations.len(), 1);
    match observations.remove(0).seen {
        ObservedThing::Thesis(seen) => Ok(*seen),
        other => panic!("{other:?}"),
    }
}

fn time(ms: i64) -> Value {
    json!(thesis_proto::time::format_millis(ms))
}

#[test]
fn values_that_would_exhaust_the_stack_are_refused() {
    let nested = include_str!("../../../../docs/receipts/unreadable/raw-values-in-each-other.json");
    assert!(matches!(json(nested.as_bytes()), Err(Refusal::Malformed)));
}

#[test]
fn a_whole_thesis_is_read_and_nothing_else() {
    let observations = thesis(&whole(), NOW).unwrap();
    let expected = Observation {
        observed_at: NOW,
        revision: Some(NOW - MINUTE),
        seen: ObservedThing::Thesis(Box::new(expected())),
    };
    assert_eq!(observations, [expected]);
}

#[test]
fn a_thesis_before_its_creation_keeps_its_revision() {
    let observation = thesis(&with(&["updated_at"], time(NOW - 9 * MINUTE)), NOW).unwrap().remove(0);
    assert_eq!(observation.revision, Some(NOW - 9 * MINUTE));
    let ObservedThing::Thesis(seen) = observation.seen else { panic!() };
    assert_eq!((seen.created_at, seen.updated_at), (NOW - 2 * MINUTE, NOW - 2 * MINUTE));
}

#[test]
fn required_fields() {
    let long = |length: usize| json!("é".repeat(length));
    let words = [json!(null), json!(5), json!([]), json!(""), json!("a b"), json!("a\u{0}"), json!("a\u{a0}")];
    let field = |name: &'static str, limit: usize| (name, words.iter().cloned().chain([long(limit + 1)]), limit);
    for (name, wrong, limit) in [
        field("id", 64),
        field("profile.id", 64),
        field("profile.handle", 64),
        field("token.chain", 32),
        field("token.address", 140),
    ] {
        let path: Vec<&str> = name.split('.').collect();
        for value in wrong {
            assert_eq!(seen(&with(&path, value.clone())), Err(Refusal::Field(name)), "{name} {value}");
        }
        assert!(seen(&with(&path, long(limit))).is_ok(), "{name}");
        let mut without = whole();
        change(&mut without, &path, None);
        assert_eq!(seen(&without), Err(Refusal::Field(name)));
    }
    for (name, value) in [
        ("profile.handle", "@"),
        ("profile.handle", "@@ana"),
        ("token.chain", "ba:se"),
        ("token.symbol", "$"),
        ("token.symbol", " "),
        ("token.symbol", "$$"),
        ("token.symbol", "a\nb"),
    ] {
        let path: Vec<&str> = name.split('.').collect();
        assert_eq!(seen(&with(&path, json!(value))), Err(Refusal::Field(name)), "{name} {value}");
    }
    let real = seen(&with(&["token", "symbol"], json!("A Real One"))).unwrap();
    assert_eq!(real.token.symbol, "A Real One");
    for name in ["profile", "token"] {
        for value in [json!(null), json!([]), json!("u1")] {
            assert_eq!(seen(&with(&[name], value)), Err(Refusal::Field(name)));
        }
    }
}

#[test]
fn texts() {
    for wrong in [json!(null), json!(""), json!(1), json!(["x"])] {
        assert_eq!(seen(&with(&["text"], wrong)), Err(Refusal::Field("text")));
    }
    let text = "é".repeat(32 * 1024);
    assert_eq!(seen(&with(&["text"], json!(text))).unwrap().text, text);
    assert_eq!(seen(&with(&["text"], json!(format!("{text}x")))), Err(Refusal::TextTooLong));
}

#[test]
fn times_that_date_an_object() {
    for name in ["created_at", "updated_at", "profile.updated_at", "token.updated_at"] {
        let path: Vec<&str> = name.split('.').collect();
        for wrong in [json!(null), json!(NOW), json!(""), json!("today"), json!("1969-12-31T23:59:59.999Z")] {
            assert_eq!(seen(&with(&path, wrong.clone())), Err(Refusal::Field(name)), "{name} {wrong}");
        }
        assert!(seen(&with(&path, time(NOW + 5 * MINUTE))).is_ok(), "{name}");
        for ahead in [time(NOW + 5 * MINUTE + 1), json!("9999-12-31T23:59:59.999Z")] {
            assert_eq!(seen(&with(&path, ahead)), Err(Refusal::Ahead), "{name}");
        }
    }
}

#[test]
fn a_wrong_optional_field_counts_as_null() {
    let long = json!("x".repeat(2_049));
    let url = json!(format!("https://e.example/{}", "x".repeat(2_048)));
    for (name, wrong) in [
        ("profile.display_name", [json!(1), json!("a\nb"), json!("\u{1b}"), long.clone()]),
        ("profile.bio", [json!(1), json!({}), json!("\u{0}"), long.clone()]),
        ("profile.avatar_url", [json!("ftp://e.example/"), json!("javascript:alert(1)"), json!(""), url.clone()]),
        ("profile.profile_url", [json!("/ana"), json!("https://e.example/a b"), json!(true), url.clone()]),
        ("profile.verified", [json!("true"), json!(1), json!([]), json!({})]),
        ("profile.created_at", [json!(0), json!("never"), time(NOW + 5 * MINUTE + 1), json!([])]),
        ("token.name", [json!(1), json!("a\tb"), json!([]), long.clone()]),
        ("token.chain_id", [json!("1"), json!(-1), json!(1.0), json!(1_i64 << 53)]),
        ("token.logo_url", [json!("data:image/png;base64,"), json!("https://"), json!(0), url.clone()]),
        ("token.platform_url", [json!("mailto:a@e.example"), json!(" https://e.example"), json!({}), url]),
        ("likes", [json!(3.0), json!(-1), json!("3"), json!(u64::MAX)]),
        ("replies", [json!(1e300), json!(1_i64 << 53), json!(true), json!([1])]),
    ] {
        let path: Vec<&str> = name.split('.').collect();
        let null = seen(&with(&path, Value::Null)).unwrap();
        assert_ne!(null, expected(), "{name}");
        for value in wrong {
            assert_eq!(seen(&with(&path, value.clone())), Ok(null.clone()), "{name} {value}");
        }
    }
    assert_eq!(seen(&with(&["likes"], json!((1_i64 << 53) - 1))).unwrap().likes, Some((1 << 53) - 1));
}

#[test]
fn a_tombstone_gives_the_deletion_and_what_it_still_tells() {
    let observed = |seen| Observation { observed_at: NOW, revision: Some(NOW - MINUTE), seen };
    let deletion = observed(ObservedThing::Deletion("t1".to_owned()));
    let content =
        |text: &str| observed(ObservedThing::Thesis(Box::new(ObservedThesis { text: text.to_owned(), ..expected() })));
    let mut tombstone = with(&["deleted"], json!(true));
    assert_eq!(thesis(&tombstone, NOW).unwrap(), [deletion.clone(), content("It goes up 🚀")]);
    change(&mut tombstone, &["text"], None);
    assert_eq!(thesis(&tombstone, NOW).unwrap(), [deletion.clone(), content("")]);
    assert_eq!(deleted_thesis(&tombstone, NOW), thesis(&tombstone, NOW));
    change(&mut tombstone, &["profile", "id"], None);
    assert_eq!(thesis(&tombstone, NOW).unwrap(), [deletion]);
    change(&mut tombstone, &["updated_at"], None);
    assert_eq!(thesis(&tombstone, NOW), Err(Refusal::Field("updated_at")));
    for no_bool in [json!("true"), json!(1), json!(null), json!(false)] {
        assert_eq!(seen(&with(&["deleted"], no_bool)), Ok(expected()));
    }
}

#[test]
fn counts() {
    let value = json!({"id": "t1", "likes": 4, "replies": "many", "updated_at": "2024-02-29T11:59:00.000Z", "x": 1});
    let counts = ObservedEngagement { upstream_id: "t1".to_owned(), likes: Some(4), replies: None };
    let expected =
        Observation { observed_at: NOW, revision: Some(NOW - MINUTE), seen: ObservedThing::Engagement(counts) };
    assert_eq!(engagement(&value, NOW), Ok(expected));
    assert_eq!(engagement(&json!({"id": "t1"}), NOW), Err(Refusal::Field("updated_at")));
    assert_eq!(engagement(&json!({"updated_at": time(NOW)}), NOW), Err(Refusal::Field("id")));
}

#[test]
fn refusals_are_counted_by_their_kind() {
    for (refusal, kind) in [
        (Refusal::Malformed, "malformed"),
        (Refusal::Field("id"), "field"),
        (Refusal::TextTooLong, "text_too_long"),
        (Refusal::Ahead, "ahead"),
        (Refusal::TooLarge, "frame_too_large"),
        (Refusal::Position, "position"),
        (Refusal::UnknownType, "unknown_type"),
        (Refusal::Contradiction("thesis.token"), "contradiction"),
    ] {
        assert_eq!(refusal.kind(), kind);
    }
}
