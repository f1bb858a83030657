//! The figures of a token as of an earlier time, over REST and gRPC.

use serde_json::{Value, json};
use thesis_proto::{
    json as canonical,
    time::from_millis,
    v1::{self, observation::Observed, token_service_client::TokenServiceClient},
};
use tonic::Request;

use super::{DAY_MS, HOUR_MS, MINUTE_MS, on_token, post_aged};
use crate::harness::{
    ALL_SCOPES, Client, Service,
    ingest::{author, deletion, revision, seen_at, thesis, token},
    iso, now_ms, text, time,
};

on_both_stores![
    what_is_recorded_later_does_not_count,
    a_post_under_way_counts_for_ever_or_never,
    both_interfaces_give_the_same_figures,
    a_time_outside_of_the_history_is_refused,
];

/// The paths of the three operations on a token.
fn paths(reference: &str, as_of: i64) -> [String; 3] {
    let as_of = iso(as_of);
    ["", "/activity", "/thesis-velocity"].map(|operation| format!("{reference}{operation}?as_of={as_of}"))
}

/// The responses of the three operations.
async fn responses(client: &Client, reference: &str, as_of: i64) -> [Value; 3] {
    let [token, activity, velocity] = paths(reference, as_of);
    [on_token(client, &token).await, on_token(client, &activity).await, on_token(client, &velocity).await]
}

/// The counts of a token: all theses, their authors, and the theses of the last day.
fn counts(token: &Value) -> [i64; 3] {
    ["thesis_count", "unique_thesis_authors", "recent_thesis_count"].map(|name| token[name].as_i64().unwrap())
}

/// Waits until the clock shows another millisecond, so that later entries have later times.
async fn pass(time: i64) {
    while now_ms() <= time {
        tokio::task::yield_now().await;
    }
}

/// Returns a time after all entries so far.
async fn instant() -> i64 {
    let time = now_ms();
    pass(time).await;
    time
}

async fn what_is_recorded_later_does_not_count(service: &Service) {
    let project = service.project().await;
    for dataset in [&*project.dataset(), "live"] {
        let client = if dataset == "live" { project.live().await } else { project.test().await };
        let on = token("solana", "PastMint", "PAST");
        post_aged(service, dataset, &on, &["past-1", "past-2"], &[1, 30, 70, 3 * 1_440]).await;
        let first = instant().await;
        // Another author's post that is recorded late, an edit and a deletion.
        let late = thesis("PAST-late", &author("past-3", "past-3"), &on, "late", now_ms() - 5 * MINUTE_MS);
        service.ingest(dataset, vec![seen_at(now_ms(), Observed::Thesis(late))]).await;
        let second = instant().await;
        let written = client.all("/v1/theses?token=PAST&limit=100").await;
        let edited = written.iter().find(|thesis| text(thesis, "text") == "number 1").unwrap();
        let again = thesis("PAST-1", &author("past-2", "past-2"), &on, "edited", time(edited, "created_at"));
        service.ingest(dataset, vec![seen_at(now_ms(), Observed::Thesis(again))]).await;
        service.ingest(dataset, vec![revision(9, deletion("PAST-0"))]).await;
        let third = instant().await;

        let [token, activity, velocity] = responses(&client, "PAST", first).await;
        assert_eq!(counts(&token), [4, 2, 3]);
        assert_eq!((&activity["thesis_count_1h"], &activity["unique_authors_24h"]), (&json!(2), &json!(2)));
        assert_eq!((&velocity["last_5m"], &velocity["previous_1h"]), (&json!(1), &json!(1)));
        assert_eq!((text(&activity, "computed_at"), text(&velocity, "computed_at")), (&*iso(first), &*iso(first)));
        // The newest thesis was deleted since, and the edit came later.
        let texts = |activity: &Value| {
            let theses = activity["recent_theses"].as_array().unwrap();
            theses.iter().map(|thesis| text(thesis, "text").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(texts(&activity), ["number 1", "number 2", "number 3"]);
        let [token, activity, _] = responses(&client, "PAST", second).await;
        assert_eq!((counts(&token), &activity["unique_authors_24h"]), ([5, 3, 4], &json!(3)));
        assert_eq!(texts(&activity)[..2], ["late", "number 1"]);
        let [token, activity, _] = responses(&client, "PAST", third).await;
        assert_eq!(counts(&token), [4, 3, 3]);
        assert_eq!(texts(&activity)[..2], ["late", "edited"]);
        assert_eq!(token["last_activity_at"], activity["recent_theses"][0]["created_at"]);
        let [token, activity, velocity] = responses(&client, "PAST", first - HOUR_MS).await;
        assert_eq!((counts(&token), &token["last_activity_at"]), ([0, 0, 0], &Value::Null));
        assert_eq!((&activity["recent_theses"], &velocity["change_pct"]), (&json!([]), &Value::Null));
    }
}

async fn a_post_under_way_counts_for_ever_or_never(service: &Service) {
    let client = service.project().await.test().await;
    client.thesis("first", "BUSY", "x").await;
    let posts = async {
        for number in 0..20 {
            client.thesis("writer", "BUSY", &format!("number {number}")).await;
        }
    };
    let reads = async {
        let mut seen = Vec::new();
        for _ in 0..20 {
            let now = now_ms();
            // The clock of the request is not before this one.
            seen.push((now, responses(&client, "BUSY", now).await));
        }
        seen
    };
    let ((), seen) = tokio::join!(posts, reads);
    for (at, before) in seen {
        assert_eq!(responses(&client, "BUSY", at).await, before, "{}", iso(at));
    }
    let [token, ..] = responses(&client, "BUSY", instant().await).await;
    assert_eq!(token["thesis_count"], 21);
}

fn request_with<T>(key: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    request
}

async fn both_interfaces_give_the_same_figures(service: &Service) {
    let key = service.project().await.key(v1::Environment::Test, ALL_SCOPES).await;
    key.client.thesis("sbx_runner", "RUN", "ours").await;
    let mut tokens = TokenServiceClient::new(service.channel());
    for age in [0, HOUR_MS, DAY_MS / 2] {
        let at = instant().await - age;
        let (r#ref, as_of) = ("RUN".to_owned(), Some(from_millis(at)));
        let request = v1::GetTokenRequest { r#ref: r#ref.clone(), as_of, ..v1::GetTokenRequest::default() };
        let mut over_grpc = Vec::new();
        let found = tokens.get_token(request_with(&key.raw, request)).await.unwrap().into_inner().token.unwrap();
        over_grpc.push(serde_json::to_value(canonical::Token::from(&found)).unwrap());
        let request = v1::GetTokenActivityRequest { r#ref: r#ref.clone(), as_of, ..Default::default() };
        let answer = tokens.get_token_activity(request_with(&key.raw, request)).await.unwrap().into_inner();
        over_grpc.push(serde_json::to_value(canonical::TokenActivity::from(&answer.activity.unwrap())).unwrap());
        let request = v1::GetThesisVelocityRequest { r#ref, as_of, ..Default::default() };
        let answer = tokens.get_thesis_velocity(request_with(&key.raw, request)).await.unwrap().into_inner();
        over_grpc.push(serde_json::to_value(canonical::ThesisVelocity::from(&answer.velocity.unwrap())).unwrap());
        assert_eq!(json!(over_grpc), json!(responses(&key.client, "RUN", at).await));
    }
}

async fn a_time_outside_of_the_history_is_refused(service: &Service) {
    let project = service.project_on("day").await;
    let client = project.test().await;
    for (as_of, rule) in [
        (now_ms() + HOUR_MS, "must not be in the future"),
        (now_ms() - DAY_MS - HOUR_MS, "must be in the plan's history, which reaches 1 days back"),
    ] {
        for path in paths("RUN", as_of) {
            let error = client.get(&format!("/v1/tokens/{path}")).await.error(422, "VALIDATION_FAILED");
            assert_eq!(
                (text(&error, "param"), error["details"].to_string().contains(rule)),
                ("as_of", true),
                "{error}"
            );
        }
    }
    // A client computes the start of the window with its own clock.
    responses(&client, "RUN", now_ms() - DAY_MS).await;
}
