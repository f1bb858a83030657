//! `GET /v1/tokens/{ref}`, `/activity` and `/thesis-velocity`.

use std::collections::HashSet;

use serde_json::{Value, json};
use thesis_proto::v1::{self, Environment, observation::Observed};

use crate::harness::{
    Client, Service, assert_fields, ids,
    ingest::{author, deletion, revision, seen_at, thesis, token},
    iso, now_ms, rows, text, time,
};

on_both_stores![
    every_reference_finds_the_token,
    a_reference_means_the_same_everywhere,
    a_token_is_whole,
    counts_equal_list_and_count_over_both_datasets,
    activity_is_counted_at_its_moment,
    velocity_compares_two_hours,
    recent_theses_are_the_newest_in_the_history_window,
    a_symbol_on_several_chains_is_ambiguous,
    at_most_fifty_candidates_are_listed,
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

async fn every_reference_finds_the_token(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let run = on_token(&client, "RUN").await;
    let (id, address) = (text(&run, "id"), text(&run, "address"));
    for reference in [id, address, &format!("sandbox:{address}"), "$RUN", "%24RUN", "run", "$Run"] {
        assert_eq!(on_token(&client, reference).await, run, "{reference}");
        assert_eq!(on_token(&client, &format!("{reference}?chain=sandbox")).await, run, "{reference}");
        client.get(&format!("/v1/tokens/{reference}?chain=solana")).await.error(404, "TOKEN_NOT_FOUND");
        for operation in ["activity", "thesis-velocity"] {
            let found = on_token(&client, &format!("{reference}/{operation}")).await;
            assert_eq!(text(&found["token"], "id"), id, "{reference}");
        }
    }
    // Hexadecimal addresses compare without case, others as they are.
    let observed = [token("ethereum", "0xAbCd", "HEX"), token("solana", "MintAbc", "MINT")];
    let seen = observed.map(|token| revision(1, Observed::Token(token)));
    let results = service.ingest(&project.dataset(), seen.into()).await;
    for (reference, index) in [
        ("0xABCD", 0),
        ("0xabcd", 0),
        ("0XABCD", 0),
        ("ethereum:0xaBcD", 0),
        ("ethereum:0Xabcd", 0),
        ("hex", 0),
        ("MintAbc", 1),
        ("solana:MintAbc", 1),
    ] {
        assert_eq!(on_token(&client, reference).await["id"], results[index].id, "{reference}");
    }
    for reference in ["mintabc", "ethereum:MintAbc", "solana:0xabcd", "tk_unknown", "$NOTHING", "%F0%9F%9A%80"] {
        for operation in ["", "/activity", "/thesis-velocity"] {
            client.get(&format!("/v1/tokens/{reference}{operation}")).await.error(404, "TOKEN_NOT_FOUND");
        }
    }
}

async fn a_reference_means_the_same_everywhere(service: &Service) {
    let project = service.project().await;
    let (client, dataset) = (project.test().await, project.dataset());
    // A symbol like an id, an address like another's symbol, and an address with colons.
    let tokens = [
        token("ethereum", "0xAB01", "tk_x"),
        token("solana", "tk_mint", "PLAIN"),
        token("sui", "0x2::sui::SUI", "COIN"),
        token("solana", "OtherMint", "0X2::SUI::SUI"),
    ];
    let by = author("u-ref", "ref");
    let mut made = Vec::new();
    for (number, on) in tokens.iter().enumerate() {
        made.push(service.post(&dataset, thesis(&format!("ref-{number}"), &by, on, "x", now_ms())).await);
    }
    for (reference, index) in [
        ("tk_x", 0),
        ("TK_X", 0),
        ("$tk_x", 0),
        ("0XAB01", 0),
        ("ethereum:0Xab01", 0),
        ("tk_mint", 1),
        ("solana:tk_mint", 1),
        ("sui:0x2::sui::SUI", 2),
        ("$coin", 2),
        ("$0x2::sui::sui", 3),
    ] {
        let listed = client.all(&format!("/v1/theses?token={reference}")).await;
        assert_eq!(ids(&listed), [&*made[index]], "{reference}");
        let on = &listed[0]["token"]["id"];
        assert_eq!(on_token(&client, reference).await["id"], *on, "{reference}");
        let events = client.all(&format!("/v1/events?types=thesis.created&token={reference}")).await;
        let told: Vec<&str> = events.iter().map(|event| text(&event["data"], "thesis_id")).collect();
        assert_eq!(told, [&*made[index]], "{reference}");
        let asked = json!({"handle": "ref", "token": reference, "created_after": iso(now_ms() - HOUR_MS)});
        assert_eq!(client.post("/v1/verify/thesis", &asked).await.ok(200)["thesis_id"], made[index], "{reference}");
    }
    // A look-up takes the first reading that exists; an event matches by any reading.
    let address = "0x2::sui::SUI";
    assert_eq!(ids(&client.all(&format!("/v1/theses?token={address}")).await), [&*made[2]]);
    assert_eq!(on_token(&client, address).await["symbol"], "$COIN");
    assert_eq!(client.all(&format!("/v1/events?types=thesis.created&token={address}")).await.len(), 2);
    // A reference that names nothing selects nothing; an event filter refuses it.
    for nothing in ["$", ":a", "a:"] {
        assert!(client.all(&format!("/v1/theses?token={nothing}")).await.is_empty());
        client.get(&format!("/v1/tokens/{nothing}")).await.error(404, "TOKEN_NOT_FOUND");
        client.get(&format!("/v1/events?token={nothing}")).await.invalid(&["token"]);
    }
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
    assert_eq!((text(&found, "object"), text(&found, "symbol"), text(&found, "name")), ("token", "$WHOLE", "Whole"));
    assert_eq!((text(&found, "chain"), &found["chain_id"], text(&found, "address")), ("ethereum", &json!(1), "0xf00d"));
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
    assert_eq!((&renamed["id"], &renamed["name"]), (&json!(id), &Value::Null));
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

async fn assert_ambiguous(service: &Service, dataset: &str, client: &Client) {
    let post = async |chain: &str, address: &str| {
        let by = author("twin-author", "twin_author");
        service
            .post(dataset, thesis(&format!("twin-{chain}"), &by, &token(chain, address, "TWIN"), "x", now_ms()))
            .await
    };
    let on_solana = post("solana", "TwinMint").await;
    let alone = on_token(client, "TWIN").await;
    let on_ethereum = post("ethereum", "0x7717").await;
    let twins = [on_token(client, "twin?chain=solana").await, on_token(client, "$TWIN?chain=ethereum").await];
    assert_eq!(twins[0], alone);
    assert_ne!(twins[0]["id"], twins[1]["id"]);
    let mut candidates = twins.each_ref().map(|token| {
        let fields = ["id", "symbol", "name", "chain", "address"];
        Value::Object(fields.map(|field| (field.to_owned(), token[field].clone())).into_iter().collect())
    });
    candidates.sort_by_key(|candidate| text(candidate, "id").to_owned());
    for reference in ["TWIN", "$twin"] {
        for operation in ["", "/activity", "/thesis-velocity"] {
            let path = format!("/v1/tokens/{reference}{operation}");
            let error = client.get(&path).await.error(409, "AMBIGUOUS_TOKEN");
            assert_fields(&error["details"], &["candidates"]);
            let mut listed = error["details"]["candidates"].as_array().unwrap().clone();
            listed.sort_by_key(|candidate| text(candidate, "id").to_owned());
            assert_eq!(listed, candidates, "{path}");
            client.get(&format!("{path}?chain=solana")).await.ok(200);
            client.get(&format!("{path}?chain=base")).await.error(404, "TOKEN_NOT_FOUND");
        }
    }
    for reference in ["TwinMint", "solana:TwinMint", text(&alone, "id")] {
        assert_eq!(on_token(client, reference).await["id"], alone["id"]);
    }
    // A list has room for both.
    let both = client.all("/v1/theses?token=TWIN").await;
    assert_eq!(both.len(), 2);
    assert!(ids(&both).contains(&&*on_solana) && ids(&both).contains(&&*on_ethereum));
    assert_eq!(ids(&client.all("/v1/theses?token=TWIN&chain=ethereum").await), [on_ethereum]);
}

async fn a_symbol_on_several_chains_is_ambiguous(service: &Service) {
    let project = service.project().await;
    assert_ambiguous(service, "live", &project.live().await).await;
    // A symbol that is ambiguous in live data is unknown to a test key, until its own data has it.
    let test = project.test().await;
    test.get("/v1/tokens/TWIN").await.error(404, "TOKEN_NOT_FOUND");
    assert_ambiguous(service, &project.dataset(), &test).await;
    // A test token with a sandbox token's symbol makes it ambiguous too.
    let seen = revision(1, Observed::Token(token("solana", "RunMint", "RUN")));
    service.learn(&project.dataset(), seen).await;
    test.get("/v1/tokens/RUN").await.error(409, "AMBIGUOUS_TOKEN");
    assert_eq!(on_token(&test, "RUN?chain=sandbox").await["chain"], "sandbox");
}

async fn at_most_fifty_candidates_are_listed(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let everywhere = |from: usize, to: usize| {
        let tokens = (from..to).map(|number| token(&format!("chain{number}"), "Mint", "EVERY"));
        tokens.map(|token| revision(1, Observed::Token(token))).collect()
    };
    service.ingest(&project.dataset(), everywhere(0, 50)).await;
    let candidates = async || {
        let error = client.get("/v1/tokens/EVERY").await.error(409, "AMBIGUOUS_TOKEN");
        let listed = error["details"]["candidates"].as_array().unwrap().clone();
        assert!(listed.iter().all(|candidate| candidate["symbol"] == "$EVERY"), "{error}");
        listed.len()
    };
    // As many as fit into the header that carries them over gRPC.
    assert!((15..=50).contains(&candidates().await));
    assert!(rows(&client.get("/v1/theses?token=EVERY").await.ok(200)).is_empty());
    service.ingest(&project.dataset(), everywhere(50, 52)).await;
    assert!((15..=50).contains(&candidates().await));
    client.get("/v1/theses?token=EVERY").await.invalid(&["token"]);
    client.get("/v1/theses?token=EVERY&chain=chain51").await.ok(200);
    on_token(&client, "EVERY?chain=chain51").await;
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
            let error = answer.error(404, "TOKEN_NOT_FOUND");
            answer.text.replace(text(&error, "request_id"), "req")
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
