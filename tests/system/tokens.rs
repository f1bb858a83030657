//! `GET /v1/tokens/{ref}`, `/activity` and `/thesis-velocity`.

mod as_of;
mod references;

use std::collections::HashSet;

use serde_json::{Value, json};
use thesis_proto::v1::{self, Environment, observation::Observed};

use crate::harness::{
    Client, Service, assert_fields,
    ingest::{author, deletion, revision, seen_at, thesis, token},
    now_ms, text, time,
};

on_both_stores![
    a_token_is_whole,
    counts_equal_list_and_count_over_both_datasets,
    activity_is_counted_at_its_moment,
    velocity_compares_two_hours,
    recent_theses_are_the_newest_in_the_history_window,
    unknown_parameters_are_refused_and_the_scope_is_needed,
    what_another_project_owns_does_not_exist,
];

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;

/// Brings a thesis on a token for each age in minutes, the authors in turn.
async fn post_aged(service: &Service, dataset: &str, on: &v1::TokenObservation, authors: &[&str], ages: &[i64]) {
    let now = now_ms();
    let theses = ages.iter().enumerate().map(|(number, age)| {
        let by = author(authors[number % authors.len()], authors[number % authors.len()]);
        let id = format!("{}-{number}", on.symbol);
        Observed::Thesis(thesis(&id, &by, on, &format!("number {number}"), now - age * MINUTE_MS))
    });
    let results = service.ingest(dataset, theses.map(|seen| seen_at(now, seen)).collect()).await;
    assert!(results.iter().all(|result| result.applied && result.event_id.is_some()));
}

async fn on_token(client: &Client, path: &str) -> Value {
    client.get(&format!("/v1/tokens/{path}")).await.ok(200)
}

async fn a_token_is_whole(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let before = now_ms();
    let told = v1::TokenObservation {
        name: Some("Whole".to_owned()),
        chain_id: Some(1),
        logo_url: Some("https://example.com/w.png".to_owned()),
        platform_url: Some("https://example.com/w".to_owned()),
        source_updated_at: Some(thesis_proto::time::from_millis(before - 500)),
        ..token("ethereum", "0xF00D", "whole")
    };
    let id = service.learn(&project.dataset(), revision(1, Observed::Token(told.clone()))).await;
    let found = on_token(&client, &id).await;
    let counts = ["thesis_count", "unique_thesis_authors", "recent_thesis_count", "metrics_scope"];
    let times = ["first_seen_at", "last_activity_at", "updated_at", "source_updated_at"];
    let names = ["object", "id", "symbol", "name", "chain", "chain_id", "address", "logo_url", "platform_url"];
    assert_fields(&found, &[&names[..], &counts, &times, &["source", "livemode"]].concat());
    assert!(id.starts_with("tk_"));
    assert_eq!((text(&found, "object"), text(&found, "symbol"), text(&found, "name")), ("token", "$whole", "Whole"));
    assert_eq!((text(&found, "chain"), &found["chain_id"], text(&found, "address")), ("ethereum", &json!(1), "0xF00D"));
    assert_eq!(
        (text(&found, "logo_url"), text(&found, "platform_url")),
        ("https://example.com/w.png", "https://example.com/w")
    );
    assert_eq!((&found["thesis_count"], &found["unique_thesis_authors"]), (&json!(0), &json!(0)));
    assert_eq!((&found["recent_thesis_count"], &found["last_activity_at"]), (&json!(0), &Value::Null));
    assert_eq!(
        (text(&found, "metrics_scope"), text(&found, "source"), &found["livemode"]),
        ("ingested", "sandbox", &json!(false))
    );
    assert_eq!((time(&found, "source_updated_at"), &found["first_seen_at"]), (before - 500, &found["updated_at"]));
    assert!((0..60_000).contains(&(time(&found, "first_seen_at") - before)));
    // A later observation changes it, its symbol too.
    let told = v1::TokenObservation { symbol: "$Renamed".to_owned(), name: None, ..told };
    service.learn(&project.dataset(), revision(2, Observed::Token(told))).await;
    let renamed = on_token(&client, "renamed").await;
    assert_eq!((&renamed["id"], &renamed["symbol"], &renamed["name"]), (&json!(id), &json!("$Renamed"), &Value::Null));
    assert_eq!(renamed["first_seen_at"], found["first_seen_at"]);
    client.get("/v1/tokens/whole").await.error(404, "TOKEN_NOT_FOUND");
    let idle = on_token(&client, "renamed/activity").await;
    assert_eq!((&idle["thesis_count_24h"], &idle["last_activity_at"]), (&json!(0), &Value::Null));
    assert_eq!((&idle["recent_theses"], idle["timeline"].as_array().unwrap().len()), (&json!([]), 24));
}

fn distinct_authors<'a>(theses: impl Iterator<Item = &'a Value>) -> usize {
    theses.map(|thesis| text(&thesis["profile"], "id")).collect::<HashSet<_>>().len()
}

/// Demands that a token's counts equal those of the listed theses.
async fn assert_counts(client: &Client, reference: &str) -> Value {
    let before = now_ms();
    let found = on_token(client, reference).await;
    let after = now_ms();
    let listed = client.all(&format!("/v1/theses?token={reference}&limit=100")).await;
    assert_eq!(found["thesis_count"], listed.len());
    assert_eq!(found["unique_thesis_authors"], distinct_authors(listed.iter()));
    assert_eq!(found["last_activity_at"], listed.first().map_or(Value::Null, |thesis| thesis["created_at"].clone()));
    let recent = |now: i64| listed.iter().filter(|thesis| time(thesis, "created_at") > now - DAY_MS).count() as i64;
    assert!((recent(after)..=recent(before)).contains(&found["recent_thesis_count"].as_i64().unwrap()), "{found}");
    found
}

async fn counts_equal_list_and_count_over_both_datasets(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let shared = assert_counts(&client, "RUN").await;
    let (theses, authors) =
        (shared["thesis_count"].as_i64().unwrap(), shared["unique_thesis_authors"].as_i64().unwrap());
    assert!(theses > 5 && authors > 1);
    // A sandbox author and an author of the project's own, twice each.
    for handle in ["sbx_runner", "own", "SBX_runner", "Own"] {
        client.thesis(handle, "RUN", "ours").await;
        assert_counts(&client, "RUN").await;
    }
    let found = on_token(&client, "$run").await;
    assert_eq!((&found["thesis_count"], &found["unique_thesis_authors"]), (&json!(theses + 4), &json!(authors + 1)));
    assert_eq!(found["id"], shared["id"]);
    // A sandbox author who had not written on it is one more; another project sees none of it.
    client.thesis("sbx_nightowl", "FRESH", "x").await;
    let fresh = assert_counts(&client, "FRESH").await;
    assert_eq!((&fresh["thesis_count"], &fresh["unique_thesis_authors"]), (&json!(1), &json!(1)));
    assert_eq!(assert_counts(&service.test_client().await, "RUN").await, shared);
    // Deletions count at once.
    let on = token("solana", "CountMint", "COUNTED");
    post_aged(service, &project.dataset(), &on, &["a", "b"], &[1, 2, 3, 2 * 1440]).await;
    assert_eq!(assert_counts(&client, "COUNTED").await["unique_thesis_authors"], 2);
    let gone = ["COUNTED-1", "COUNTED-3"].map(|id| revision(2, deletion(id)));
    service.ingest(&project.dataset(), gone.into()).await;
    let found = assert_counts(&client, "COUNTED").await;
    assert_eq!((&found["thesis_count"], &found["unique_thesis_authors"]), (&json!(2), &json!(1)));
}

/// Demands that an activity's figures are those of the theses listed, at its moment.
fn assert_activity(activity: &Value, listed: &[Value]) {
    let windows = ["thesis_count_1h", "thesis_count_24h", "unique_authors_24h", "timeline", "recent_theses"];
    let rest = ["object", "token", "last_activity_at", "metrics_scope", "livemode", "computed_at"];
    assert_fields(activity, &[&windows[..], &rest].concat());
    assert_eq!((text(activity, "object"), text(activity, "metrics_scope")), ("token_activity", "ingested"));
    let at = time(activity, "computed_at");
    let inside =
        |from: i64, to: i64| listed.iter().filter(move |thesis| (from + 1..=to).contains(&time(thesis, "created_at")));
    assert_eq!(activity["thesis_count_1h"], inside(at - HOUR_MS, at).count());
    assert_eq!(activity["thesis_count_24h"], inside(at - DAY_MS, at).count());
    assert_eq!(activity["unique_authors_24h"], distinct_authors(inside(at - DAY_MS, at)));
    assert_eq!(activity["last_activity_at"], listed.first().map_or(Value::Null, |thesis| thesis["created_at"].clone()));
    let timeline = activity["timeline"].as_array().unwrap();
    assert_eq!(timeline.len(), 24);
    for (number, bucket) in (0..).zip(timeline) {
        assert_fields(bucket, &["bucket_start", "theses", "unique_authors"]);
        let start = time(bucket, "bucket_start");
        assert_eq!(start, at - DAY_MS + number * HOUR_MS);
        assert_eq!(bucket["theses"], inside(start, start + HOUR_MS).count());
        assert_eq!(bucket["unique_authors"], distinct_authors(inside(start, start + HOUR_MS)));
    }
    let sum: i64 = timeline.iter().map(|bucket| bucket["theses"].as_i64().unwrap()).sum();
    assert_eq!(activity["thesis_count_24h"], sum);
}

async fn activity_is_counted_at_its_moment(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    for symbol in ["RUN", "ART"] {
        client.thesis("sbx_scout", symbol, "ours").await;
        let activity = on_token(&client, &format!("{symbol}/activity")).await;
        let listed = client.all(&format!("/v1/theses?token={symbol}&limit=100")).await;
        assert_activity(&activity, &listed);
        assert!(activity["thesis_count_24h"].as_i64().unwrap() > 0);
        assert_eq!(activity["recent_theses"], json!(listed[..10]));
        assert_eq!(activity["livemode"], false);
    }
    let ages = [0, 1, 4, 6, 30, 59, 61, 61, 90, 119, 121, 600, 1_000, 1_381, 1_439, 1_441, 3_000];
    for dataset in [&*project.dataset(), "live"] {
        let client = if dataset == "live" { project.live().await } else { project.test().await };
        let on = token("solana", "ActivityMint", "ACTIVE");
        post_aged(service, dataset, &on, &["act-1", "act-2", "act-3"], &ages).await;
        let listed = client.all("/v1/theses?token=ACTIVE&limit=100").await;
        assert_eq!(listed.len(), ages.len());
        let activity = on_token(&client, "active/activity?chain=solana").await;
        assert_activity(&activity, &listed);
        assert_eq!((&activity["thesis_count_24h"], &activity["thesis_count_1h"]), (&json!(15), &json!(6)));
        assert_eq!((&activity["token"], &activity["livemode"]), (&listed[0]["token"], &json!(dataset == "live")));
    }
}

async fn velocity_compares_two_hours(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let velocity = async |symbol: &str, ages: &[i64]| {
        let on = token("solana", &format!("{symbol}Mint"), symbol);
        post_aged(service, &project.dataset(), &on, &["v-1", "v-2"], ages).await;
        let (before, found) = (now_ms(), on_token(&client, &format!("{symbol}/thesis-velocity")).await);
        let counts = ["last_5m", "last_1h", "previous_1h", "change_pct"];
        let rest = ["object", "token", "metrics_scope", "livemode", "computed_at"];
        assert_fields(&found, &[&counts[..], &rest].concat());
        assert_eq!((text(&found, "object"), text(&found, "metrics_scope")), ("thesis_velocity", "ingested"));
        assert_eq!((&found["livemode"], text(&found["token"], "symbol")), (&json!(false), &*format!("${symbol}")));
        assert!((before - MINUTE_MS..=now_ms()).contains(&time(&found, "computed_at")));
        let [a, b, c, change] = counts.map(|name| found[name].clone());
        ([a, b, c].map(|count| count.as_i64().unwrap()), change.as_f64())
    };
    assert_eq!(velocity("VUP", &[0, 1, 6, 61, 100, 121]).await, ([2, 3, 2], Some(50.0)));
    assert_eq!(velocity("VDOWN", &[10, 61, 62, 63, 64]).await, ([0, 1, 4], Some(-75.0)));
    assert_eq!(velocity("VNEW", &[0, 4, 58]).await, ([2, 3, 0], None));
    assert_eq!(velocity("VOLD", &[61, 4_000]).await, ([0, 0, 1], Some(-100.0)));
    // A thesis of this project on a shared token counts with the sandbox's.
    client.thesis("sbx_runner", "RUN", "now").await;
    let found = on_token(&client, "RUN/thesis-velocity").await;
    let listed = client.all("/v1/theses?token=RUN&limit=100").await;
    let at = time(&found, "computed_at");
    let count = |from: i64, to: i64| {
        listed.iter().filter(|thesis| (from + 1..=to).contains(&time(thesis, "created_at"))).count()
    };
    assert_eq!(
        (&found["last_5m"], &found["last_1h"]),
        (&json!(count(at - 5 * MINUTE_MS, at)), &json!(count(at - HOUR_MS, at)))
    );
    assert_eq!(found["previous_1h"], count(at - 2 * HOUR_MS, at - HOUR_MS));
}

async fn recent_theses_are_the_newest_in_the_history_window(service: &Service) {
    let project = service.project_on("day").await;
    let client = project.test().await;
    let on = token("solana", "RecentMint", "RECENT");
    let ages: Vec<i64> = (0..60).chain([1_500, 1_600]).collect();
    post_aged(service, &project.dataset(), &on, &["r-1"], &ages).await;
    let listed = client.all("/v1/theses?token=RECENT&limit=100").await;
    assert_eq!(listed.len(), 60);
    for (query, count) in [("", 10), ("?recent=1", 1), ("?recent=50", 50)] {
        let activity = on_token(&client, &format!("RECENT/activity{query}")).await;
        assert_eq!(activity["recent_theses"], json!(listed[..count]), "{query}");
    }
    // Counts know no window, lists do.
    assert_eq!(on_token(&client, "RECENT").await["thesis_count"], 62);
    let old = token("solana", "OldMint", "OLDEST");
    post_aged(service, &project.dataset(), &old, &["r-1"], &[1_500]).await;
    let activity = on_token(&client, "OLDEST/activity").await;
    assert_eq!(activity["recent_theses"], json!([]));
    assert!(activity["last_activity_at"].is_string());
    assert!(client.all("/v1/theses?token=OLDEST").await.is_empty());
    // The sandbox's theses are never cut off.
    let fixtures = client.all("/v1/theses?token=ART&limit=50").await;
    assert!(time(fixtures.last().expect("a fixture"), "created_at") < now_ms() - 2 * DAY_MS);
    assert_eq!(on_token(&client, "ART/activity?recent=50").await["recent_theses"], json!(fixtures));
}

async fn unknown_parameters_are_refused_and_the_scope_is_needed(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    for operation in ["", "/activity", "/thesis-velocity"] {
        client.get(&format!("/v1/tokens/RUN{operation}?colour=red&chains=x")).await.invalid(&["colour", "chains"]);
    }
    let narrow = project.key(Environment::Test, &["theses:read"]).await.client;
    for operation in ["", "/activity", "/thesis-velocity"] {
        narrow.get(&format!("/v1/tokens/RUN{operation}")).await.error(403, "INSUFFICIENT_SCOPE");
    }
}

async fn what_another_project_owns_does_not_exist(service: &Service) {
    let made = service.test_client().await.thesis("writer", "HIDDEN", "x").await.0;
    let other = service.project().await;
    for client in [other.test().await, other.live().await] {
        let bytes = async |reference: &str| {
            let answer = client.get(&format!("/v1/tokens/{reference}")).await;
            answer.error(404, "TOKEN_NOT_FOUND");
            answer.same_everywhere()
        };
        let foreign = bytes(text(&made["token"], "id")).await;
        for reference in ["HIDDEN", text(&made["token"], "address"), "tk_never"] {
            assert_eq!(bytes(reference).await, foreign);
        }
    }
    other.live().await.get("/v1/tokens/RUN").await.error(404, "TOKEN_NOT_FOUND");
}

#[tokio::test]
async fn an_author_whom_the_sandbox_learned_of_counts_once() {
    let service = Service::embedded(|setup| setup);
    let project = service.project().await;
    let client = project.test().await;
    let on = token("sandbox", "GuestMint", "GUEST");
    for guest in ["guest", "other"] {
        service.post("sandbox", thesis(guest, &author(guest, guest), &on, "x", now_ms())).await;
    }
    client.thesis("guest", "GUEST", "x").await;
    client.thesis("own", "GUEST", "x").await;
    let found = assert_counts(&client, "GUEST").await;
    assert_eq!((&found["thesis_count"], &found["unique_thesis_authors"]), (&json!(4), &json!(3)));
    service.learn("sandbox", revision(1, deletion("guest"))).await;
    assert_eq!(assert_counts(&client, "GUEST").await["unique_thesis_authors"], 3);
    assert_eq!(assert_counts(&service.test_client().await, "GUEST").await["unique_thesis_authors"], 1);
}
