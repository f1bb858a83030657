//! `POST /v1/verify/thesis`.

mod feed;
mod references;

use serde_json::{Value, json};
use thesis_proto::v1::{self, Environment};

use crate::harness::{
    Answer, Client, Service, assert_fields,
    ingest::{author, deletion, revision, thesis, token},
    iso, now_ms, text, time,
};

on_both_stores![
    the_newest_thesis_that_matches_is_named,
    every_reason_has_its_checks,
    a_window_is_inclusive_to_the_millisecond,
    text_compares_by_case_folding,
    a_deleted_thesis_is_told_apart,
    both_datasets_are_looked_at,
    an_edit_counts_as_it_is_now,
    fields_that_do_not_go_together_are_named,
    verification_has_its_own_limits,
    what_another_project_owns_is_unknown,
];

const MINUTE_MS: i64 = 60_000;
const DAY_MS: i64 = 24 * 60 * MINUTE_MS;

/// A claim of a handle on a token in a window.
fn claim(handle: &str, token: &str, from: i64, to: i64) -> Value {
    json!({"handle": handle, "token": token, "created_after": iso(from), "created_before": iso(to)})
}

async fn ask(client: &Client, claim: &Value) -> Answer {
    client.post("/v1/verify/thesis", claim).await
}

/// Verifies a claim; the answer's form is checked.
async fn verify(client: &Client, claim: &Value) -> Value {
    let before = now_ms();
    let verdict = ask(client, claim).await.ok(200);
    let named = ["profile_id", "thesis_id", "created_at", "token"];
    assert_fields(
        &verdict,
        &[&["object", "verified", "checks", "reason", "freshness", "livemode"][..], &named].concat(),
    );
    assert_fields(
        &verdict["checks"],
        &["identity", "token", "time_window", "thesis_exists", "not_deleted", "contains"],
    );
    assert_fields(&verdict["freshness"], &["checked_at", "upstream_synced_at", "served_from"]);
    assert_eq!(text(&verdict, "object"), "thesis_verification");
    assert_eq!(verdict["verified"], verdict["reason"] == "VERIFIED");
    assert!((before - MINUTE_MS..=now_ms() + MINUTE_MS).contains(&time(&verdict["freshness"], "checked_at")));
    assert_eq!(text(&verdict["freshness"], "served_from"), "cache");
    // Test keys have no upstream.
    assert!(verdict["livemode"] == true || verdict["freshness"]["upstream_synced_at"].is_null(), "{verdict}");
    assert_eq!(verdict["checks"]["contains"].is_null(), claim.get("contains").is_none_or(Value::is_null));
    verdict
}

/// Demands a reason and its checks: identity, token, time_window, thesis_exists, not_deleted.
async fn expect(client: &Client, claim: &Value, reason: &str, checks: [bool; 5], contains: Option<bool>) -> Value {
    let verdict = verify(client, claim).await;
    let [identity, token, time_window, thesis_exists, not_deleted] = checks;
    let expected = json!({
        "identity": identity, "token": token, "time_window": time_window, "thesis_exists": thesis_exists,
        "not_deleted": not_deleted, "contains": contains,
    });
    assert_eq!((text(&verdict, "reason"), &verdict["checks"]), (reason, &expected), "{claim}");
    assert_eq!(verdict["profile_id"].is_null(), !identity, "{verdict}");
    assert_eq!(verdict["token"].is_null(), !token, "{verdict}");
    let names_one = ["VERIFIED", "TEXT_NOT_FOUND", "THESIS_DELETED"].contains(&reason);
    assert_eq!((verdict["thesis_id"].is_string(), verdict["created_at"].is_string()), (names_one, names_one));
    verdict
}

/// Brings theses of `@author` on `$VER` of a new project, each with its age in minutes and its text.
async fn written(service: &Service, theses: &[(i64, &str)]) -> (Client, String, Vec<(String, i64)>) {
    let project = service.project().await;
    let dataset = project.dataset();
    let mut made = Vec::new();
    for (number, (age, said)) in theses.iter().enumerate() {
        let at = now_ms() - age * MINUTE_MS;
        let on = token("solana", "VerMint", "VER");
        let posted = thesis(&format!("v{number}"), &author("u-author", "Author"), &on, said, at);
        made.push((service.post(&dataset, posted).await, at));
    }
    (project.test().await, dataset, made)
}

async fn the_newest_thesis_that_matches_is_named(service: &Service) {
    let theses = [(300, "long moon"), (200, "short sun"), (100, "long star")];
    let (client, _, made) = written(service, &theses).await;
    let (from, to) = (now_ms() - DAY_MS, now_ms());
    let all = [true; 5];
    let mut asked = claim("author", "VER", from, to);
    let verdict = expect(&client, &asked, "VERIFIED", all, None).await;
    assert_eq!((text(&verdict, "thesis_id"), time(&verdict, "created_at")), (&*made[2].0, made[2].1));
    assert_eq!((text(&verdict, "token"), &verdict["livemode"]), ("$VER", &json!(false)));
    let profile = client.get("/v1/profiles/author").await.ok(200);
    assert_eq!(verdict["profile_id"], profile["id"]);
    for (contains, index) in [("moon", 0), ("SHORT", 1), ("long", 2), ("", 2), (" s", 2), ("t s", 1)] {
        asked["contains"] = json!(contains);
        let verdict = expect(&client, &asked, "VERIFIED", all, Some(true)).await;
        assert_eq!(text(&verdict, "thesis_id"), made[index].0, "{contains}");
    }
    // Without an end, the window ends now.
    let open = json!({"handle": "author", "token": "VER", "created_after": iso(from)});
    assert_eq!(expect(&client, &open, "VERIFIED", all, None).await["thesis_id"], made[2].0);
    let fixture = client.get("/v1/theses?token=RUN&handle=sbx_runner&limit=1").await.ok(200)["data"][0].take();
    let at = time(&fixture, "created_at");
    let verdict = expect(&client, &claim("@sbx_runner", "$run", at, at), "VERIFIED", all, None).await;
    assert_eq!(verdict["thesis_id"], fixture["id"]);
}

async fn every_reason_has_its_checks(service: &Service) {
    let (client, _, made) = written(service, &[(300, "moon"), (200, "sun")]).await;
    client.thesis("silent", "OTHER", "x").await;
    let (from, to) = (now_ms() - DAY_MS, now_ms());
    let with = |mut claim: Value, contains: &str| {
        claim["contains"] = json!(contains);
        claim
    };
    let none = [false; 5];
    expect(&client, &claim("nobody", "VER", from, to), "PROFILE_NOT_FOUND", none, None).await;
    expect(&client, &with(claim("nobody", "NOTHING", from, to), "x"), "PROFILE_NOT_FOUND", none, Some(false)).await;
    let found = [true, false, false, false, false];
    expect(&client, &claim("author", "NOTHING", from, to), "TOKEN_NOT_FOUND", found, None).await;
    expect(&client, &with(claim("author", "NOTHING", from, to), ""), "TOKEN_NOT_FOUND", found, Some(false)).await;
    let narrowed = json!({
        "handle": "author", "token": "VER", "chain": "ethereum", "created_after": iso(from),
    });
    expect(&client, &narrowed, "TOKEN_NOT_FOUND", found, None).await;
    // An author who never posted on the token, and one who posted outside the window.
    let both = [true, true, false, false, false];
    expect(&client, &claim("silent", "VER", from, to), "NO_THESIS_IN_WINDOW", both, None).await;
    expect(&client, &claim("author", "OTHER", from, to), "NO_THESIS_IN_WINDOW", both, None).await;
    let elsewhen = [true, true, false, true, false];
    let (late, early) = (claim("author", "VER", made[1].1 + 1, to), claim("author", "VER", from, made[0].1 - 1));
    expect(&client, &late, "NO_THESIS_IN_WINDOW", elsewhen, None).await;
    expect(&client, &with(early, "moon"), "NO_THESIS_IN_WINDOW", elsewhen, Some(false)).await;
    // The newest thesis in the window is named, though none has the text.
    let verdict = with(claim("author", "VER", from, to), "stars");
    let verdict = expect(&client, &verdict, "TEXT_NOT_FOUND", [true; 5], Some(false)).await;
    assert_eq!(verdict["thesis_id"], made[1].0);
    let only_first = with(claim("author", "VER", from, made[1].1 - 1), "sun");
    let verdict = expect(&client, &only_first, "TEXT_NOT_FOUND", [true; 5], Some(false)).await;
    assert_eq!((text(&verdict, "thesis_id"), time(&verdict, "created_at")), (&*made[0].0, made[0].1));
}

async fn a_window_is_inclusive_to_the_millisecond(service: &Service) {
    let (client, _, made) = written(service, &[(300, "x")]).await;
    let at = made[0].1;
    let verified = [(at, at), (at - 1, at), (at, at + 1)];
    for (from, to) in verified {
        expect(&client, &claim("author", "VER", from, to), "VERIFIED", [true; 5], None).await;
    }
    let elsewhen = [true, true, false, true, false];
    for (from, to) in [(at + 1, at + 1), (at - 1, at - 1), (at + 1, at + 9_000)] {
        expect(&client, &claim("author", "VER", from, to), "NO_THESIS_IN_WINDOW", elsewhen, None).await;
    }
    // Any time offset is accepted, and a bound between two milliseconds is exact.
    let mut finer = claim("author", "VER", at, at);
    finer["created_before"] = json!(iso(at + 2 * 60 * MINUTE_MS).replace('Z', "+02:00"));
    expect(&client, &finer, "VERIFIED", [true; 5], None).await;
    finer["created_after"] = json!(iso(at).replace('Z', "001Z"));
    finer["created_before"] = json!(iso(at + 1));
    expect(&client, &finer, "NO_THESIS_IN_WINDOW", elsewhen, None).await;
}

async fn text_compares_by_case_folding(service: &Service) {
    let said = "Die STRASSE nach Ωmega 🚀, ПОЛЁТ на Луну; ΟΔΟΣ, İstanbul";
    let (client, _, _) = written(service, &[(300, said)]).await;
    let asked = |contains: &str| {
        let mut asked = claim("author", "VER", now_ms() - DAY_MS, now_ms());
        asked["contains"] = json!(contains);
        asked
    };
    for contains in ["straße", "die strasse", "ωMEGA", "полёт НА", "🚀,", "οδος", "οδοσ", "stanbul", said]
    {
        expect(&client, &asked(contains), "VERIFIED", [true; 5], Some(true)).await;
    }
    // Texts are folded, not normalised, and there are no wildcards.
    for contains in ["полет", "strase", "%", "die  strasse", "\u{43f}\u{43e}\u{43b}\u{435}\u{308}\u{442}"] {
        expect(&client, &asked(contains), "TEXT_NOT_FOUND", [true; 5], Some(false)).await;
    }
}

async fn a_deleted_thesis_is_told_apart(service: &Service) {
    let (client, dataset, made) = written(service, &[(300, "moon"), (200, "sun")]).await;
    let (from, to) = (now_ms() - DAY_MS, now_ms());
    let mut asked = claim("author", "VER", from, to);
    service.learn(&dataset, revision(i64::MAX / 2, deletion("v1"))).await;
    let verdict = expect(&client, &asked, "VERIFIED", [true; 5], None).await;
    assert_eq!(verdict["thesis_id"], made[0].0);
    // A deleted thesis is not searched for text.
    asked["contains"] = json!("sun");
    let verdict = expect(&client, &asked, "TEXT_NOT_FOUND", [true; 5], Some(false)).await;
    assert_eq!(verdict["thesis_id"], made[0].0);
    let gone = [true, true, true, true, false];
    let only_deleted = claim("author", "VER", made[1].1, made[1].1);
    let verdict = expect(&client, &only_deleted, "THESIS_DELETED", gone, None).await;
    assert_eq!((text(&verdict, "thesis_id"), time(&verdict, "created_at")), (&*made[1].0, made[1].1));
    service.learn(&dataset, revision(i64::MAX / 2, deletion("v0"))).await;
    let verdict = expect(&client, &asked, "THESIS_DELETED", gone, Some(false)).await;
    assert_eq!(verdict["thesis_id"], made[1].0);
    // Deleted theses count as posted.
    let late = claim("author", "VER", made[1].1 + 1, to);
    expect(&client, &late, "NO_THESIS_IN_WINDOW", [true, true, false, true, false], None).await;
}

async fn both_datasets_are_looked_at(service: &Service) {
    let client = service.test_client().await;
    let shared = client.get("/v1/theses?token=RUN&handle=sbx_runner&limit=1").await.ok(200)["data"][0].take();
    let own = client.thesis("sbx_runner", "RUN", "ours alone").await.0;
    let mut asked = claim("sbx_runner", "RUN", time(&shared, "created_at"), now_ms());
    assert_eq!(expect(&client, &asked, "VERIFIED", [true; 5], None).await["thesis_id"], own["id"]);
    asked["contains"] = shared["text"].clone();
    assert_eq!(expect(&client, &asked, "VERIFIED", [true; 5], Some(true)).await["thesis_id"], shared["id"]);
    // It is there at once, and only for its project.
    let at = time(&own, "created_at");
    let just = claim("sbx_runner", "RUN", at, at);
    expect(&client, &just, "VERIFIED", [true; 5], None).await;
    let other = service.test_client().await;
    expect(&other, &just, "NO_THESIS_IN_WINDOW", [true, true, false, true, false], None).await;
}

async fn an_edit_counts_as_it_is_now(service: &Service) {
    let (client, dataset, made) = written(service, &[(300, "before")]).await;
    let on = token("solana", "VerMint", "VER");
    let edited = thesis("v0", &author("u-author", "Author"), &on, "after", made[0].1);
    service.learn(&dataset, revision(i64::MAX / 2, v1::observation::Observed::Thesis(edited))).await;
    let mut asked = claim("author", "VER", made[0].1, made[0].1);
    asked["contains"] = json!("after");
    expect(&client, &asked, "VERIFIED", [true; 5], Some(true)).await;
    asked["contains"] = json!("before");
    expect(&client, &asked, "TEXT_NOT_FOUND", [true; 5], Some(false)).await;
}

async fn fields_that_do_not_go_together_are_named(service: &Service) {
    let client = service.project_on("day").await.test().await;
    let now = now_ms();
    let good = claim("sbx_runner", "RUN", now - 1_000, now);
    let mut backwards = good.clone();
    backwards["created_before"] = json!(iso(now - 1_001));
    ask(&client, &backwards).await.invalid(&["created_before"]);
    // Exactly one of the two author fields.
    let mut both = good.clone();
    both["profile_id"] = json!("sbx_1");
    ask(&client, &both).await.invalid(&["handle"]);
    let mut neither = good.clone();
    neither.as_object_mut().unwrap().remove("handle");
    ask(&client, &neither).await.invalid(&["handle"]);
    ask(&client, &json!({})).await.invalid(&["handle", "token", "created_after"]);
    // A window that ends now cannot start later.
    let ahead = json!({"handle": "sbx_runner", "token": "RUN", "created_after": iso(now + DAY_MS)});
    ask(&client, &ahead).await.invalid(&["created_after"]);
    // The longest value of each field.
    let mut longest = json!({"handle": "🚀".repeat(64), "token": "🚀".repeat(140), "chain": "🚀".repeat(32)});
    longest["created_after"] = json!(iso(now - 1_000));
    longest["contains"] = json!("🚀".repeat(500));
    expect(&client, &longest, "PROFILE_NOT_FOUND", [false; 5], Some(false)).await;
    // The plan's history window, which holds for the sandbox too when a bound is requested.
    ask(&client, &claim("sbx_runner", "RUN", now - DAY_MS - 120_000, now)).await.error(403, "HISTORY_LIMIT");
    ask(&client, &claim("nobody", "RUN", now - DAY_MS - 120_000, now)).await.error(403, "HISTORY_LIMIT");
    for early in ["1969-12-31T23:59:59Z", "0001-01-01"] {
        let mut asked = good.clone();
        asked["created_after"] = json!(early);
        ask(&client, &asked).await.error(403, "HISTORY_LIMIT");
        let mut backwards = good.clone();
        backwards["created_before"] = json!(early);
        ask(&client, &backwards).await.invalid(&["created_before"]);
    }
    verify(&client, &claim("sbx_runner", "RUN", now - DAY_MS - 30_000, now)).await;
    client.get("/v1/verify/thesis").await.error(405, "METHOD_NOT_ALLOWED");
}

async fn verification_has_its_own_limits(service: &Service) {
    let project = service.project().await;
    let client = project.test().await;
    let asked = claim("nobody", "RUN", now_ms() - 1_000, now_ms());
    for body in [&asked, &json!({})] {
        assert_eq!(ask(&client, body).await.header("ratelimit-policy"), "\"verify\";q=240;w=60");
    }
    let narrow = project.key(Environment::Test, &["tokens:read"]).await.client;
    ask(&narrow, &asked).await.error(403, "INSUFFICIENT_SCOPE");
    // A repeat is verified again: no verdict is kept.
    let later = claim("later", "VERLATER", now_ms() - MINUTE_MS, now_ms() + MINUTE_MS);
    let first = client.post_once("/v1/verify/thesis", &later, "again").await;
    assert_eq!(first.ok(200)["reason"], "PROFILE_NOT_FOUND");
    client.thesis("later", "VERLATER", "x").await;
    let second = client.post_once("/v1/verify/thesis", &later, "again").await;
    assert_eq!(second.ok(200)["reason"], "VERIFIED");
    assert!(!second.headers.contains_key("idempotent-replayed"));
}

async fn what_another_project_owns_is_unknown(service: &Service) {
    let (_, _, made) = written(service, &[(300, "x")]).await;
    let other = service.test_client().await;
    let asked = claim("author", "VER", made[0].1, made[0].1);
    expect(&other, &asked, "PROFILE_NOT_FOUND", [false; 5], None).await;
    other.thesis("author", "ELSEWHERE", "x").await;
    expect(&other, &asked, "TOKEN_NOT_FOUND", [true, false, false, false, false], None).await;
}
