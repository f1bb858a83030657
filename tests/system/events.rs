//! `GET /v1/events` and `GET /v1/events/{id}`.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::harness::{Client, SOON, Service, assert_fields, eventually, ids, iso, now_ms, rows, text, time};

on_both_stores![
    history_is_newest_first_and_merged,
    a_thesis_is_followed_by_derived_events,
    types_and_filters_must_all_match,
    bounds_are_those_of_the_event,
    pages_neither_repeat_nor_skip_while_events_arrive,
    a_cursor_belongs_to_its_filters,
    the_history_window_bounds_what_is_read,
    by_id_gives_the_row_of_the_list,
    what_another_project_owns_does_not_exist,
];

const TYPES: [&str; 4] = ["thesis.created", "profile.updated", "token.activity", "token.thesis_velocity"];
const DAY_MS: i64 = 86_400_000;

/// Waits until a project's derived events about a token are there; gives all events about it, newest first.
async fn with_derived(client: &Client, symbol: &str) -> Vec<Value> {
    let path = format!("/v1/events?token={symbol}&limit=100");
    eventually("derived events", SOON, async || {
        let events = client.all(&path).await;
        let newest_thesis = events.iter().find(|event| event["type"] == TYPES[0])?["data"]["thesis_id"].clone();
        let covered = events.iter().any(|event| event["data"]["latest_thesis_id"] == newest_thesis);
        let velocity = events.iter().position(|event| event["type"] == TYPES[3]);
        let activity = events.iter().position(|event| event["type"] == TYPES[2]);
        (covered && velocity.is_some() && activity.is_some()).then_some(events)
    })
    .await
}

async fn history_is_newest_first_and_merged(service: &Service) {
    let client = service.test_client().await;
    let seeded = client.all("/v1/events?types=thesis.created&limit=100").await;
    let theses = client.all("/v1/theses?limit=100").await;
    // A fixture's event carries its thesis and its time.
    let of: Vec<&str> = seeded.iter().map(|event| text(&event["data"], "thesis_id")).collect();
    assert_eq!(of, ids(&theses));
    for (event, thesis) in seeded.iter().zip(&theses) {
        assert_fields(event, &["object", "id", "type", "created_at", "livemode", "source", "data"]);
        assert_eq!((&event["created_at"], &event["data"]["text"]), (&thesis["created_at"], &thesis["text"]));
        assert_eq!((&event["data"]["profile"], &event["data"]["token"]), (&thesis["profile"], &thesis["token"]));
        assert_eq!((&event["source"], &event["livemode"]), (&json!("sandbox"), &json!(false)));
    }
    let mut own = Vec::new();
    for number in 0..3 {
        own.insert(0, client.thesis("writer", "MERGED", &format!("number {number}")).await.1);
    }
    let merged = client.all("/v1/events?types=thesis.created&limit=11").await;
    assert_eq!(merged[..3], own[..]);
    assert_eq!(merged[3..], seeded[..]);
    let everything = client.all("/v1/events?limit=100").await;
    assert!(everything.is_sorted_by(|newer, older| time(newer, "created_at") >= time(older, "created_at")));
    let page = client.get("/v1/events?types=thesis.created").await.ok(200);
    assert_eq!(rows(&page)[..], merged[..25]);
}

async fn a_thesis_is_followed_by_derived_events(service: &Service) {
    let client = service.test_client().await;
    client.thesis("one", "DERIVED", "first").await;
    client.thesis("two", "DERIVED", "second").await;
    let (last, event) = client.thesis("two", "DERIVED", "third").await;
    let events = with_derived(&client, "DERIVED").await;
    let newest = |kind: &str| events.iter().find(|event| event["type"] == kind).unwrap();
    let activity = newest(TYPES[2]);
    assert_fields(activity, &["object", "id", "type", "created_at", "livemode", "source", "data"]);
    assert_eq!(activity["source"], "sandbox");
    let data = json!({
        "token": last["token"], "thesis_count_1h": 3, "thesis_count_24h": 3, "unique_authors_24h": 2,
        "latest_thesis_id": last["id"], "last_activity_at": last["created_at"],
    });
    assert_eq!(activity["data"], data);
    let velocity = newest(TYPES[3]);
    let mut data = velocity["data"].clone();
    assert!(time(&data, "computed_at") >= time(&last, "created_at"));
    data["computed_at"].take();
    let expected = json!({
        "token": last["token"], "last_5m": 3, "last_1h": 3, "previous_1h": 0, "change_pct": null, "computed_at": null,
    });
    assert_eq!(data, expected);
    // At most one of a kind in five seconds, and never older than the theses it covers.
    let activities: Vec<&Value> = events.iter().filter(|event| event["type"] == TYPES[2]).collect();
    assert!(activities.windows(2).all(|pair| time(pair[0], "created_at") - time(pair[1], "created_at") >= 5_000));
    assert!(time(activity, "created_at") >= time(&event, "created_at"));
}

async fn types_and_filters_must_all_match(service: &Service) {
    let client = service.test_client().await;
    let (ours, _) = client.thesis("writer", "FILTERED", "ours").await;
    client.thesis("sbx_runner", "RUN", "ours, on what is everybody's").await;
    with_derived(&client, "FILTERED").await;
    assert!(with_derived(&client, "RUN").await.len() > 20);
    eventually("the sandbox's own derived events", SOON, async || {
        let velocities = client.all("/v1/events?types=token.thesis_velocity&token=RUN,SEEK,RACE,TAG,ART,CRAFT").await;
        let tokens: HashSet<&str> = velocities.iter().map(|event| text(&event["data"]["token"], "symbol")).collect();
        (tokens.len() == 6).then_some(())
    })
    .await;
    let all = client.all("/v1/events?limit=100").await;
    let token = |event: &Value| text(&event["data"]["token"], "symbol").to_owned();
    let handle = |event: &Value| event["data"]["profile"]["handle"].as_str().map(str::to_owned);
    let of = |types: &'static [&str]| move |event: &Value| types.contains(&text(event, "type"));
    let address = text(&ours["token"], "address");
    let expect = async |query: &str, wanted: &dyn Fn(&Value) -> bool| {
        let found = client.all(&format!("/v1/events?limit=60&{query}")).await;
        let expected: Vec<Value> = all.iter().filter(|event| wanted(event)).cloned().collect();
        assert_eq!(ids(&found), ids(&expected), "{query}");
    };
    expect("types=thesis.created", &of(&TYPES[..1])).await;
    expect("types=token.activity", &of(&TYPES[2..3])).await;
    expect("types=token.thesis_velocity,token.activity", &of(&TYPES[2..])).await;
    expect("types=profile.updated", &of(&TYPES[1..2])).await;
    expect(&format!("types={}", TYPES.join(",")), &|_| true).await;
    expect("token=$FILTERED", &|event| token(event) == "$FILTERED").await;
    for reference in ["filtered", text(&ours["token"], "id"), address, &format!("sandbox:{address}")] {
        expect(&format!("token={reference}"), &|event| token(event) == "$FILTERED").await;
    }
    expect("token=RUN,SEEK,$FILTERED", &|event| ["$RUN", "$SEEK", "$FILTERED"].contains(&token(event).as_str())).await;
    expect("handle=@writer", &|event| handle(event).as_deref() == Some("@writer")).await;
    expect("handle=WRITER,sbx_scout", &|event| matches!(handle(event).as_deref(), Some("@writer" | "@sbx_scout")))
        .await;
    expect("chain=sandbox", &|_| true).await;
    expect("chain=solana", &|_| false).await;
    expect("token=RUN&handle=sbx_runner", &|event| {
        token(event) == "$RUN" && handle(event).as_deref() == Some("@sbx_runner")
    })
    .await;
    expect("token=RUN&types=token.activity&chain=sandbox,solana", &|event| {
        token(event) == "$RUN" && event["type"] == TYPES[2]
    })
    .await;
    expect("token=RUN&handle=writer", &|_| false).await;
}

async fn bounds_are_those_of_the_event(service: &Service) {
    let client = service.test_client().await;
    let all = client.all("/v1/events?limit=100&types=thesis.created").await;
    let (from, to) = (time(&all[90], "created_at"), time(&all[30], "created_at"));
    for (query, expected) in [
        (format!("created_after={}&created_before={}", iso(from), iso(to)), from..=to),
        (format!("created_after={}", iso(from + 1)), from + 1..=i64::MAX),
        (format!("created_before={}", iso(to - 1)), 0..=to - 1),
        (format!("created_after={0}&created_before={0}", iso(from)), from..=from),
    ] {
        let found = client.all(&format!("/v1/events?types=thesis.created&limit=50&{query}")).await;
        let expected: Vec<&str> = all
            .iter()
            .filter(|event| expected.contains(&time(event, "created_at")))
            .map(|row| text(row, "id"))
            .collect();
        assert_eq!(ids(&found), expected, "{query}");
    }
}

async fn pages_neither_repeat_nor_skip_while_events_arrive(service: &Service) {
    let client = service.test_client().await;
    let mut expected = Vec::new();
    for number in 0..20 {
        expected.insert(0, client.thesis("writer", "PAGES", &format!("before {number}")).await.1);
    }
    expected.extend(service.test_client().await.all("/v1/events?types=thesis.created&limit=100").await);
    let base = "/v1/events?types=thesis.created&limit=13";
    let (mut path, mut found) = (base.to_owned(), Vec::new());
    loop {
        let page = client.get(&path).await.ok(200);
        found.extend(rows(&page).clone());
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("{base}&cursor={cursor}");
        client.thesis("writer", "PAGES", "meanwhile").await;
    }
    assert_eq!(ids(&found), ids(&expected));
}

async fn a_cursor_belongs_to_its_filters(service: &Service) {
    let client = service.test_client().await;
    let page = client.get("/v1/events?types=thesis.created&limit=2").await.ok(200);
    let cursor = text(&page, "next_cursor");
    client.get(&format!("/v1/events?types=thesis.created&limit=9&cursor={cursor}")).await.ok(200);
    for query in [format!("cursor={cursor}"), format!("types=token.activity&cursor={cursor}"), "cursor=x".to_owned()] {
        client.get(&format!("/v1/events?{query}")).await.error(400, "INVALID_CURSOR");
    }
    let foreign = service.test_client().await;
    foreign.get(&format!("/v1/events?types=thesis.created&cursor={cursor}")).await.error(400, "INVALID_CURSOR");
    let of_theses = client.get("/v1/theses?limit=2").await.ok(200);
    client.get(&format!("/v1/events?cursor={}", text(&of_theses, "next_cursor"))).await.error(400, "INVALID_CURSOR");
}

async fn the_history_window_bounds_what_is_read(service: &Service) {
    let all = service.test_client().await.all("/v1/events?types=thesis.created&limit=100").await;
    let client = service.project_on("day").await.test().await;
    // The sandbox's events are never cut off, whatever the plan.
    let own = client.thesis("writer", "WINDOW", "x").await.1;
    let seen = client.all("/v1/events?types=thesis.created&limit=40").await;
    assert_eq!((&seen[0], &seen[1..]), (&own, &all[..]));
    let oldest = &all[149];
    assert!(time(oldest, "created_at") < now_ms() - 5 * DAY_MS);
    assert_eq!(client.get(&format!("/v1/events/{}", text(oldest, "id"))).await.ok(200), *oldest);
    // A requested bound must lie in the window.
    let old = iso(now_ms() - DAY_MS - 90_000);
    client.get(&format!("/v1/events?created_after={old}")).await.error(403, "HISTORY_LIMIT");
    let slack = format!("/v1/events?types=thesis.created&limit=3&created_after={}", iso(now_ms() - DAY_MS - 30_000));
    let found = client.all(&slack).await;
    assert!(found.len() > 1 && found.iter().all(|event| time(event, "created_at") >= now_ms() - DAY_MS - 40_000));
}

async fn by_id_gives_the_row_of_the_list(service: &Service) {
    let client = service.test_client().await;
    client.thesis("writer", "BYID", "x").await;
    for event in with_derived(&client, "BYID").await.iter().chain(&client.all("/v1/events?token=ART&limit=100").await) {
        assert_eq!(client.get(&format!("/v1/events/{}", text(event, "id"))).await.ok(200), *event);
    }
}

async fn what_another_project_owns_does_not_exist(service: &Service) {
    let event = service.test_client().await.thesis("writer", "SECRET", "nobody else's").await.1;
    let client = service.test_client().await;
    let bytes = async |id: &str| {
        let answer = client.get(&format!("/v1/events/{id}")).await;
        answer.error(404, "EVENT_NOT_FOUND");
        answer.same_everywhere()
    };
    let foreign = bytes(text(&event, "id")).await;
    for id in [&*format!("evt_{}", "0".repeat(24)), &format!("evt_{}", "0".repeat(32)), "x", &"x".repeat(65)] {
        assert_eq!(bytes(id).await, foreign);
    }
}
