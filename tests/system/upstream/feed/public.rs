//! Derived events, and what no answer ever holds.

use serde_json::{Value, json};

use super::super::{assert_public, new};
use crate::harness::{Following, Process, UPSTREAM_TOKEN, profile_id, reference, text, thesis_id};

pub(super) async fn derived_events_say_so(live: &Following, author: &Value) {
    let on = live.upstream.token("base", "0x00000000000000000000000000000000000000De", "DERIVED").await;
    let mut stream = live.client.stream("?types=token.activity,token.thesis_velocity&token=DERIVED").await;
    let mut last = Value::Null;
    for number in 0..3 {
        last = live.post(&new(author, &on, &format!("number {number}"))).await.1;
    }
    let is_last = |event: &Value| event["data"]["latest_thesis_id"] == last["id"];
    let (mut activity, mut velocity) = (Value::Null, Value::Null);
    // The last pair is never lost.
    while !is_last(&activity) || velocity["data"]["last_1h"] != 3 {
        let frame = stream.next().await;
        assert_eq!((text(&frame.data, "source"), &frame.data["livemode"]), ("derived", &json!(true)));
        assert_eq!(frame.data["data"]["token"], last["token"]);
        if frame.event == "token.activity" {
            activity = frame.data;
        } else {
            velocity = frame.data;
        }
    }
    let counts = ["thesis_count_1h", "thesis_count_24h", "unique_authors_24h"].map(|name| &activity["data"][name]);
    assert_eq!(counts, [&json!(3), &json!(3), &json!(1)]);
    let shown = live.client.get(&format!("/v1/tokens/{}/activity", reference(&on))).await.ok(200);
    assert_eq!((&shown["thesis_count_24h"], &shown["livemode"]), (&json!(3), &json!(true)));
}

/// Looks at every operation's answer.
pub(super) async fn nothing_else_is_told(live: &Following, author: &Value, on: &Value, thesis: &Value) {
    let client = &live.client;
    let (row, by, token) = (thesis_id(thesis), profile_id(author), reference(on));
    let first = client.get("/v1/events?limit=1").await.ok(200);
    let event = text(&first["data"][0], "id");
    for path in [
        "/v1/theses?limit=100",
        "/v1/theses?limit=100&sort=likes_desc",
        &format!("/v1/theses/{row}"),
        &format!("/v1/profiles/{by}"),
        &format!("/v1/profiles?upstream_user_id={}", text(author, "id")),
        &format!("/v1/tokens/{token}"),
        &format!("/v1/tokens/{token}/activity?recent=50"),
        &format!("/v1/tokens/{token}/thesis-velocity"),
        "/v1/search?q=sapphire%20OR%20anatwo%20OR%20sfrxeth",
        "/v1/events?limit=100",
        "/v1/events?limit=100&types=profile.updated",
        &format!("/v1/events/{event}"),
    ] {
        let answer = client.search(path).await;
        answer.ok(200);
        assert_public(&answer.text);
    }
    // The words themselves find nothing either.
    for word in ["stored", "never-stored", "1234567"] {
        let found = client.search(&format!("/v1/search?q={word}")).await.ok(200);
        let [theses, profiles, tokens] = ["theses", "profiles", "tokens"].map(|kind| &found[kind]);
        assert_eq!([theses, profiles, tokens], [&json!([]); 3], "{word}");
    }
    let claim = json!({"profile_id": author["id"], "token": token, "created_after": thesis["created_at"]});
    let verdict = client.post("/v1/verify/thesis", &claim).await;
    verdict.ok(200);
    assert_public(&verdict.text);
    let cursor = client.stream("").await.first_cursor().await;
    let mut stream = client.resume("", &cursor).await;
    live.post(&new(author, on, "streamed")).await;
    assert_public(&stream.next_of("thesis.created").await.raw);
    // Logs hold neither that nor secrets.
    let logs: String = live.service.processes.iter().map(Process::log).collect();
    assert_public(&logs);
    assert!(!logs.contains(UPSTREAM_TOKEN) && !logs.contains("Quartz emissions"));
    let refused = live.status().await.refused;
    assert!(refused.is_empty(), "{refused:?}");
}
