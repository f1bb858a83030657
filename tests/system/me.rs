//! What a key learns about itself, and what everybody may read.

use serde_json::{Value, json};
use thesis_proto::v1::Environment;

use crate::harness::{ALL_SCOPES, Client, SOON, Service, TEST_KEY, assert_fields, eventually, now_ms, text, time};

on_both_stores![
    discovery_names_what_exists,
    the_description_is_served,
    a_key_learns_about_itself,
    default_scopes_leave_out_webhooks,
    any_valid_key_may_ask,
    bootstrap_keys_exist_on_an_approved_project,
    usage_follows_what_is_used,
    usage_is_counted_per_project_and_environment,
];

async fn discovery_names_what_exists(service: &Service) {
    let document = service.anonymous().moved_to(&service.http).get("/v1").await.ok(200);
    let [openapi, documentation, reference] =
        ["/v1/openapi.json", "/docs", "/docs/reference"].map(|path| format!("{}{path}", service.http));
    let websocket = format!("{}/v1/stream", service.http.replacen("http", "ws", 1));
    assert_eq!(
        document,
        json!({"object": "discovery", "version": "1.0.0", "openapi": openapi, "documentation": documentation,
            "reference": reference, "websocket": websocket, "status": "ok"})
    );
}

async fn the_description_is_served(service: &Service) {
    let document = service.anonymous().moved_to(&service.http).get("/v1/openapi.json").await.ok(200);
    assert!(text(&document, "openapi").starts_with("3.1"));
    assert_eq!(document["info"]["version"], "1.0.0");
    assert_eq!(document["servers"][0]["url"], service.http);
    // Every described route exists: without a key it asks for one, or is public.
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys().filter(|key| *key != "parameters") {
            let method = method.to_uppercase().parse().unwrap();
            // A client of its own, since one address may not fail to authenticate this often.
            let client = service.anonymous();
            let path = path.replace("{id}", "x").replace("{ref}", "x");
            let answer = client.send(client.request(method, &path)).await;
            // The logs are public, but this names no dataset.
            if answer.status != 200 && !path.starts_with("/v1/log/") {
                answer.error(401, "MISSING_API_KEY");
            }
        }
    }
}

async fn a_key_learns_about_itself(service: &Service) {
    let project = service.project().await;
    let end = now_ms() + 3_600_000;
    let key = project.key_until(Environment::Test, ALL_SCOPES, Some(end)).await;
    let me = key.client.get("/v1/me").await.ok(200);
    let fields = ["object", "id", "name", "prefix", "environment", "livemode", "scopes", "project", "organization"];
    assert_fields(&me, &[&fields[..], &["created_at", "expires_at"]].concat());
    assert_eq!((text(&me, "object"), text(&me, "id"), text(&me, "name")), ("api_key", key.id.as_str(), "ci"));
    let prefix = text(&me, "prefix");
    assert!(prefix.starts_with("svc_test_") && key.raw.starts_with(prefix) && prefix.len() < 20, "{me}");
    assert_eq!((&me["environment"], &me["livemode"]), (&json!("test"), &json!(false)));
    assert_eq!(me["scopes"], json!(ALL_SCOPES));
    assert_eq!(me["project"], json!({"id": project.id, "name": "Rockets"}));
    assert_eq!(me["organization"], json!({"id": project.organization.id, "name": "Acme", "plan": "business"}));
    assert!((now_ms() - time(&me, "created_at")).abs() < 60_000);
    assert_eq!(time(&me, "expires_at"), end);

    let live = project.live().await.get("/v1/me").await.ok(200);
    assert_eq!((&live["environment"], &live["livemode"]), (&json!("live"), &json!(true)));
    assert!(text(&live, "prefix").starts_with("svc_live_") && live["expires_at"].is_null());
}

async fn default_scopes_leave_out_webhooks(service: &Service) {
    let key = service.project().await.key(Environment::Test, &[]).await;
    let me = key.client.get("/v1/me").await.ok(200);
    let expected = json!(["profiles:read", "theses:read", "tokens:read", "search:read", "events:read", "streams:read"]);
    assert_eq!(me["scopes"], expected);
    key.client.get("/v1/webhooks").await.error(403, "INSUFFICIENT_SCOPE");
}

async fn any_valid_key_may_ask(service: &Service) {
    let key = service.project().await.key(Environment::Test, &["search:read"]).await;
    key.client.get("/v1/me").await.ok(200);
    key.client.get("/v1/me/usage").await.ok(200);
}

async fn bootstrap_keys_exist_on_an_approved_project(service: &Service) {
    let test = service.client(TEST_KEY).get("/v1/me").await.ok(200);
    let live = service.client(crate::harness::LIVE_KEY).get("/v1/me").await.ok(200);
    assert_eq!((&test["environment"], &live["environment"]), (&json!("test"), &json!("live")));
    assert_eq!(test["project"], live["project"]);
    assert_eq!(test["project"]["name"], "default");
    assert_eq!(test["organization"]["plan"], "business");
    assert_eq!(test["scopes"], json!(ALL_SCOPES));
    assert_eq!(live["scopes"], json!(ALL_SCOPES));
}

async fn usage(client: &Client) -> Value {
    client.get("/v1/me/usage").await.ok(200)
}

async fn usage_follows_what_is_used(service: &Service) {
    let client = service.test_client().await.at_one_edge();
    let before = usage(&client).await;
    assert_fields(&before, &["object", "month", "rates", "streams", "webhooks", "livemode"]);
    assert_eq!((text(&before, "object"), &before["livemode"]), ("usage", &json!(false)));
    assert_fields(&before["month"], &["start", "end", "limit", "used", "remaining"]);
    assert!((time(&before["month"], "start")..time(&before["month"], "end")).contains(&now_ms()));
    assert!(text(&before["month"], "start").ends_with("-01T00:00:00.000Z"));
    assert_eq!(before["month"]["limit"], 100_000_000);
    assert_eq!(before["streams"], json!({"limit": 100, "open": 0}));
    assert_eq!(before["webhooks"], json!({"limit": 100, "used": 0}));
    for (class, limit) in [("standard", 1_200), ("heavy", 240), ("verify", 240)] {
        assert_fields(&before["rates"][class], &["limit", "remaining", "reset"]);
        assert_eq!(before["rates"][class]["limit"], limit);
    }

    client.get("/v1/theses").await.ok(200);
    client.get("/v1/theses?limit=0").await.invalid(&["limit"]);
    client.get("/v1/theses/th_unknown").await.error(404, "THESIS_NOT_FOUND");
    client.webhook("http://127.0.0.1:19999/", &["thesis.created"]).await;
    let stream = client.stream("").await;
    let after = usage(&client).await;
    // Wrong shapes do not count against the month; all other requests do.
    let used = |usage: &Value| usage["month"]["used"].as_i64().unwrap();
    assert_eq!(used(&after) - used(&before), 5);
    assert_eq!(used(&after) + after["month"]["remaining"].as_i64().unwrap(), 100_000_000);
    assert_eq!((&after["streams"]["open"], &after["webhooks"]["used"]), (&json!(1), &json!(1)));
    let standard = |usage: &Value| usage["rates"]["standard"]["remaining"].as_i64().unwrap();
    if before["rates"]["standard"]["reset"] == after["rates"]["standard"]["reset"] {
        assert_eq!(standard(&before) - standard(&after), 6);
    }
    assert_eq!(after["rates"]["heavy"]["remaining"], 240);
    drop(stream);
    eventually("the stream's place is free", SOON, async || {
        (usage(&client).await["streams"]["open"] == 0).then_some(())
    })
    .await;
}

async fn usage_is_counted_per_project_and_environment(service: &Service) {
    let project = service.project().await;
    let (one, other) = (project.test().await.at_one_edge(), project.test().await.at_one_edge());
    let live = project.live().await.at_one_edge();
    one.webhook("http://127.0.0.1:19999/", &["thesis.created"]).await;
    assert_eq!(usage(&other).await["webhooks"]["used"], 1);
    let live_usage = usage(&live).await;
    assert_eq!((&live_usage["webhooks"]["used"], &live_usage["livemode"]), (&json!(0), &json!(true)));
    // The month is counted by organization.
    assert_eq!(live_usage["month"]["used"], 3);
}
