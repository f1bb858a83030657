//! The description's examples of errors are real answers.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Map, Value, json};
use thesis_proto::v1::{Environment, observation::Observed};

use super::compare;
use crate::harness::{
    ALL_SCOPES, Answer, Client, Receiver, SOON, Service, eventually,
    ingest::{revision, token},
    now_ms, text,
};

on_both_stores![errors_are_those_of_the_examples];

/// Codes that other tests provoke, or that come from trouble alone.
const ELSEWHERE: [&str; 5] = [
    "IDEMPOTENCY_IN_PROGRESS",
    "INTERNAL_ERROR",
    "RANGE_NOT_SATISFIABLE",
    "SERVICE_UNAVAILABLE",
    "UPSTREAM_UNAVAILABLE",
];

/// An endpoint where nobody is.
const URL: &str = "http://127.0.0.1:19999/hook";

/// The examples of errors, and the codes that a real answer had.
struct Examples {
    all: Map<String, Value>,
    seen: BTreeSet<String>,
}

impl Examples {
    async fn read(client: &Client) -> Self {
        let mut document = client.get("/v1/openapi.json").await.ok(200);
        let Value::Object(all) = document["components"]["examples"].take() else { panic!("no examples") };
        Self { all, seen: BTreeSet::new() }
    }

    /// Holds an answer against the example of a code.
    fn hold(&mut self, code: &str, answer: &Answer) {
        let (example, real) = (&self.all[code]["value"]["error"], answer.json()["error"].take());
        for field in ["code", "type", "param", "details"] {
            // The candidates are the test's own tokens.
            let is_own = field == "details" && code == "AMBIGUOUS_TOKEN";
            assert!(is_own || real[field] == example[field], "{code}: {}", answer.text);
        }
        // The test's plan has another number.
        let told = |error: &Value| match code {
            "QUOTA_EXCEEDED" => text(error, "message").replace(char::is_numeric, ""),
            _ => text(error, "message").to_owned(),
        };
        assert_eq!(told(&real), told(example), "{code}");
        let page = |error: &Value| text(error, "doc_url").split_once("/docs/").map(|(_, page)| page.to_owned());
        assert_eq!(page(&real), page(example), "{code}");
        compare(code, example, &real);
        self.seen.insert(code.to_owned());
    }
}

/// Demands that an answer is as the example of its code.
pub(crate) async fn assert_example(client: &Client, answer: &Answer) {
    let code = answer.json()["error"]["code"].as_str().unwrap().to_owned();
    Examples::read(client).await.hold(&code, answer);
}

async fn errors_are_those_of_the_examples(service: &Service) {
    let mut examples = Examples::read(&service.anonymous()).await;
    of_keys(service, &mut examples).await;
    of_paths(service, &mut examples).await;
    of_bodies(service, &mut examples).await;
    of_names(service, &mut examples).await;
    of_plans(service, &mut examples).await;
    let all: BTreeSet<String> = examples.all.keys().cloned().collect();
    let elsewhere = ELSEWHERE.map(str::to_owned);
    assert_eq!(all, examples.seen.into_iter().chain(elsewhere).collect());
}

async fn of_keys(service: &Service, examples: &mut Examples) {
    let project = service.project().await;
    let nobody = service.anonymous();
    examples.hold("MISSING_API_KEY", &nobody.get("/v1/me").await);
    examples.hold("INVALID_API_KEY", &nobody.with_key(Some("svc_test_unknown")).get("/v1/me").await);
    let bare = project.key(Environment::Test, &[]).await;
    examples.hold("INSUFFICIENT_SCOPE", &bare.client.get("/v1/webhooks").await);
    project.revoke(&bare).await;
    examples.hold("API_KEY_REVOKED", &bare.client.get("/v1/me").await);
    let past = project.key_until(Environment::Test, &[], Some(now_ms() - 1)).await;
    examples.hold("API_KEY_EXPIRED", &past.client.get("/v1/me").await);
    let near = project.key_from(&["192.0.2.0/24"]).await;
    examples.hold("ADDRESS_NOT_ALLOWED", &near.client.get("/v1/me").await);
    let live = project.key(Environment::Live, ALL_SCOPES).await.client;
    examples.hold("LIVE_ACCESS_NOT_APPROVED", &live.get("/v1/me").await);
    project.approve().await;
    examples.hold("TEST_KEY_REQUIRED", &live.post("/v1/test/theses", &json!({})).await);
    project.archive().await;
    examples.hold("PROJECT_ARCHIVED", &live.get("/v1/me").await);
}

async fn of_paths(service: &Service, examples: &mut Examples) {
    let client = service.test_client().await;
    for (code, path) in [
        ("INVALID_CURSOR", "/v1/theses?cursor=nonsense"),
        ("FEATURE_DISABLED", "/v1/profiles/sbx_runner/wallets"),
        ("THESIS_NOT_FOUND", "/v1/theses/th_unknown"),
        ("EVENT_NOT_FOUND", "/v1/events/evt_unknown"),
        ("WEBHOOK_NOT_FOUND", "/v1/webhooks/wh_unknown"),
        ("ALERT_NOT_FOUND", "/v1/alerts/al_unknown"),
        ("ARCHIVE_FILE_NOT_FOUND", "/v1/archive/2020-01-01/theses.parquet"),
        ("ROUTE_NOT_FOUND", "/v1/theses/a/b"),
        ("VALIDATION_FAILED", "/v1/theses?limit=1000&tokn=RUN"),
    ] {
        examples.hold(code, &client.get(path).await);
    }
    let own = client.thesis("writer", "PROOF", "moon").await.0;
    let receipt = client.get(&format!("/v1/theses/{}/receipt", text(&own, "id"))).await;
    examples.hold("RECEIPT_UNAVAILABLE", &receipt);
    let replay = client.post("/v1/webhook-deliveries/del_unknown/replay", &json!({})).await;
    examples.hold("DELIVERY_NOT_FOUND", &replay);
    examples.hold("METHOD_NOT_ALLOWED", &client.send(client.request(Method::PUT, "/v1/theses")).await);
}

async fn of_bodies(service: &Service, examples: &mut Examples) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let post = client.request(Method::POST, "/v1/test/theses").header("content-type", "application/json");
    examples.hold("INVALID_REQUEST", &client.send(post.body("{")).await);
    let large = client.request(Method::POST, "/v1/test/theses").body("x".repeat(70_000));
    examples.hold("PAYLOAD_TOO_LARGE", &client.send(large).await);
    let with_port = json!({"url": "https://1.1.1.1:22/", "events": ["thesis.created"]});
    examples.hold("WEBHOOK_URL_FORBIDDEN", &client.post("/v1/webhooks", &with_port).await);
    let thesis = |text: &str| json!({"handle": "writer", "token": "EXAMPLE", "text": text});
    client.post_once("/v1/test/theses", &thesis("x"), "k").await.ok(201);
    examples.hold("IDEMPOTENCY_KEY_REUSED", &client.post_once("/v1/test/theses", &thesis("y"), "k").await);

    receiver.answer(500);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    client.thesis("writer", "EXAMPLE", "z").await;
    let log = format!("/v1/webhooks/{}/deliveries", text(&webhook, "id"));
    let waiting = eventually("a delivery is retried", SOON, async || {
        client.all(&log).await.into_iter().find(|row| row["status"] == "retrying")
    })
    .await;
    let replay = format!("/v1/webhook-deliveries/{}/replay", text(&waiting, "id"));
    examples.hold("DELIVERY_IN_PROGRESS", &client.post(&replay, &json!({})).await);
}

async fn of_names(service: &Service, examples: &mut Examples) {
    let project = service.project_on("huge").await;
    let client = project.test().await;
    for (code, path) in [("PROFILE_NOT_FOUND", "/v1/profiles/sbx_runnre"), ("TOKEN_NOT_FOUND", "/v1/tokens/RNU")] {
        // The search index follows a little later.
        let told = async || {
            let answer = client.get(path).await;
            (!answer.error(404, code)["details"]["near"].is_null()).then_some(answer)
        };
        examples.hold(code, &eventually(path, SOON, told).await);
    }
    let other = revision(1, Observed::Token(token("solana", "RunMint", "RUN")));
    service.learn(&project.dataset(), other).await;
    examples.hold("AMBIGUOUS_TOKEN", &client.get("/v1/tokens/RUN").await);
}

async fn of_plans(service: &Service, examples: &mut Examples) {
    let client = service.project_on("free").await.test().await.at_one_edge();
    examples.hold("HISTORY_LIMIT", &client.get("/v1/theses?since=8d").await);
    for _ in 0..3 {
        client.webhook(URL, &["thesis.created"]).await;
    }
    let more = json!({"url": URL, "events": ["thesis.created"]});
    examples.hold("WEBHOOK_LIMIT_REACHED", &client.post("/v1/webhooks", &more).await);
    client.thesis("writer", "LIMITED", "x").await;
    let alert = json!({"name": "x", "token": "LIMITED", "metric": "thesis_count_24h", "above": 5});
    for _ in 0..5 {
        client.post("/v1/alerts", &alert).await.ok(201);
    }
    examples.hold("ALERT_LIMIT_REACHED", &client.post("/v1/alerts", &alert).await);
    let streams = [client.stream("").await, client.stream("").await];
    examples.hold("STREAM_LIMIT_REACHED", &client.get("/v1/events/stream").await);
    drop(streams);
    let refused = loop {
        let answer = client.get("/v1/me").await;
        if answer.status != 200 {
            break answer;
        }
    };
    examples.hold("RATE_LIMITED", &refused);
    let few = service.project_on("few").await.test().await;
    for _ in 0..4 {
        few.get("/v1/me").await.ok(200);
    }
    examples.hold("QUOTA_EXCEEDED", &few.get("/v1/me").await);
}
