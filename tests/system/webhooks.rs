//! `/v1/webhooks`: create, list, retrieve, delete.

use serde_json::{Value, json};
use thesis_proto::v1::Environment;

use crate::harness::{Client, Service, assert_fields, ids, now_ms, rows, text, time};

on_both_stores![
    the_secret_is_told_once,
    everything_given_is_kept,
    lists_are_newest_first_and_paged,
    a_webhook_belongs_to_its_project_and_environment,
    a_deleted_webhook_is_gone,
    the_plan_limits_their_number,
    forbidden_urls_say_why,
    they_need_their_scope,
];

const URL: &str = "http://127.0.0.1:19999/hook";
const FIELDS: [&str; 13] = [
    "object",
    "id",
    "url",
    "description",
    "events",
    "filters",
    "status",
    "secret_prefix",
    "livemode",
    "created_at",
    "headers",
    "payload",
    "public_key",
];

async fn the_secret_is_told_once(service: &Service) {
    let client = service.test_client().await;
    let mut made = client.webhook(URL, &["thesis.created"]).await;
    assert_fields(&made, &[&FIELDS[..], &["updated_at", "secret"]].concat());
    assert!(text(&made, "id").starts_with("wh_"));
    let (secret, prefix) = (text(&made, "secret").to_owned(), text(&made, "secret_prefix"));
    assert!(secret.starts_with("whsec_") && secret.len() > 30);
    assert!(prefix.starts_with("whsec_") && secret.starts_with(prefix) && prefix.len() < 16);
    assert_eq!((text(&made, "object"), text(&made, "status")), ("webhook", "enabled"));
    assert_eq!((&made["description"], &made["filters"]), (&Value::Null, &json!({})));
    assert_eq!((&made["headers"], &made["payload"]), (&json!([]), &json!("full")));
    assert!(text(&made, "public_key").starts_with("whpk_"));
    assert!((now_ms() - time(&made, "created_at")).abs() < 60_000);
    made.as_object_mut().unwrap().remove("secret");
    let read = client.get(&format!("/v1/webhooks/{}", text(&made, "id"))).await;
    assert_eq!(read.ok(200), made);
    let listed = client.get("/v1/webhooks").await;
    assert_eq!(rows(&listed.ok(200))[..], [made]);
    assert!(!read.text.contains(&secret) && !listed.text.contains(&secret));
}

async fn everything_given_is_kept(service: &Service) {
    let client = service.test_client().await;
    let body = json!({
        "url": "http://127.0.0.1:19999/a%20b?x=1&y=%24",
        "events": ["token.activity", "thesis.created", "token.activity"],
        "filters": {"token": ["$RUN", "tk_1"], "handle": ["@sbx_runner"], "chain": ["sandbox"]},
        "description": "für Menschen 🚀",
        "payload": "thin",
    });
    let made = client.post("/v1/webhooks", &body).await.ok(201);
    for field in ["url", "filters", "description", "payload"] {
        assert_eq!(made[field], body[field]);
    }
    // A type that is repeated is kept once.
    assert_eq!(made["events"], json!(["token.activity", "thesis.created"]));
    assert_eq!(client.get(&format!("/v1/webhooks/{}", text(&made, "id"))).await.ok(200)["filters"], body["filters"]);
    let part =
        json!({"url": URL, "events": ["thesis.created"], "filters": {"chain": ["sandbox"]}, "description": null});
    let made = client.post("/v1/webhooks", &part).await.ok(201);
    assert_eq!((&made["filters"], &made["description"]), (&part["filters"], &Value::Null));
}

async fn lists_are_newest_first_and_paged(service: &Service) {
    let client = service.test_client().await;
    let mut made = Vec::new();
    for _ in 0..5 {
        made.insert(0, text(&client.webhook(URL, &["thesis.created"]).await, "id").to_owned());
    }
    let listed = client.all("/v1/webhooks").await;
    assert!(listed.is_sorted_by(|newer, older| time(newer, "created_at") >= time(older, "created_at")));
    let paged = client.all("/v1/webhooks?limit=2").await;
    assert_eq!(paged, listed);
    let mut found = ids(&listed);
    found.sort_unstable();
    made.sort();
    assert_eq!(found, made);
    assert_eq!(client.all("/v1/webhooks?status=enabled&limit=3").await, listed);
    for status in ["disabled", "disabled_failing"] {
        assert!(client.all(&format!("/v1/webhooks?status={status}")).await.is_empty());
    }
    let page = client.get("/v1/webhooks?limit=2").await.ok(200);
    let cursor = text(&page, "next_cursor");
    client.get(&format!("/v1/webhooks?status=enabled&cursor={cursor}")).await.error(400, "INVALID_CURSOR");
}

async fn not_found(client: &Client, id: &str) -> String {
    let answer = client.get(&format!("/v1/webhooks/{id}")).await;
    answer.error(404, "WEBHOOK_NOT_FOUND");
    client.get(&format!("/v1/webhooks/{id}/deliveries")).await.error(404, "WEBHOOK_NOT_FOUND");
    client.delete(&format!("/v1/webhooks/{id}")).await.error(404, "WEBHOOK_NOT_FOUND");
    answer.same_everywhere()
}

async fn a_webhook_belongs_to_its_project_and_environment(service: &Service) {
    let project = service.project().await;
    let (test, live) = (project.test().await, project.live().await);
    let of_test = test.webhook(URL, &["thesis.created"]).await;
    let of_live = live.webhook("https://1.1.1.1/hook", &["thesis.created"]).await;
    assert_eq!((&of_test["livemode"], &of_live["livemode"]), (&json!(false), &json!(true)));
    assert_eq!(ids(&project.test().await.all("/v1/webhooks").await), [text(&of_test, "id")]);
    assert_eq!(ids(&live.all("/v1/webhooks").await), [text(&of_live, "id")]);
    let stranger = service.test_client().await;
    assert!(stranger.all("/v1/webhooks").await.is_empty());
    let never = not_found(&test, "wh_0000000000000000000000000").await;
    assert_eq!(not_found(&test, text(&of_live, "id")).await, never);
    assert_eq!(not_found(&live, text(&of_test, "id")).await, never);
    assert_eq!(not_found(&stranger, text(&of_test, "id")).await, never);
    assert_eq!(not_found(&stranger, &"x".repeat(100)).await, never);
    test.get(&format!("/v1/webhooks/{}", text(&of_test, "id"))).await.ok(200);
}

async fn a_deleted_webhook_is_gone(service: &Service) {
    let client = service.test_client().await;
    let id = text(&client.webhook(URL, &["thesis.created"]).await, "id").to_owned();
    let gone = client.delete(&format!("/v1/webhooks/{id}")).await.ok(200);
    assert_eq!(gone, json!({"object": "webhook", "id": id, "deleted": true}));
    not_found(&client, &id).await;
    assert!(client.all("/v1/webhooks").await.is_empty());
}

async fn the_plan_limits_their_number(service: &Service) {
    let project = service.project_on("free").await;
    let (test, live) = (project.test().await, project.live().await);
    let body = json!({"url": URL, "events": ["thesis.created"]});
    let mut last = Value::Null;
    for _ in 0..3 {
        last = test.post("/v1/webhooks", &body).await.ok(201);
    }
    let error = test.post("/v1/webhooks", &body).await.error(403, "WEBHOOK_LIMIT_REACHED");
    assert_eq!(error["details"], json!({"limit": 3, "environment": "test"}));
    // Live webhooks are counted separately.
    live.webhook("https://1.1.1.1/hook", &["thesis.created"]).await;
    test.delete(&format!("/v1/webhooks/{}", text(&last, "id"))).await.ok(200);
    test.post("/v1/webhooks", &body).await.ok(201);
    test.post("/v1/webhooks", &body).await.error(403, "WEBHOOK_LIMIT_REACHED");

    // Requests at the same time do not get more either.
    let client = service.project_on("free").await.test().await;
    let making: tokio::task::JoinSet<u16> = (0..8)
        .map(|_| {
            let (client, body) = (client.clone(), body.clone());
            async move { client.post("/v1/webhooks", &body).await.status }
        })
        .collect();
    let made = making.join_all().await.into_iter().filter(|status| *status == 201).count();
    assert_eq!(made, 3);
}

async fn forbidden_urls_say_why(service: &Service) {
    let project = service.project().await;
    let (test, live) = (project.test().await, project.live().await);
    let refuse = async |client: &Client, url: &str, reason: &str| {
        let body = json!({"url": url, "events": ["thesis.created"]});
        let error = client.post("/v1/webhooks", &body).await.error(422, "WEBHOOK_URL_FORBIDDEN");
        assert_eq!((&error["details"]["reason"], &error["param"]), (&json!(reason), &json!("url")), "{url}");
    };
    for (url, reason) in [
        ("ftp://example.com/", "scheme"),
        ("not a url", "scheme"),
        ("https://user:secret@example.com/", "credentials"),
        ("https://example.com:22/", "port"),
        ("https://example.com:5432/", "port"),
        ("https://example.com:27017/", "port"),
        ("https://localhost/", "loopback"),
        ("https://[::1]/", "loopback"),
        ("https://printer/", "hostname"),
        ("https://metadata.google.internal/", "hostname"),
        ("https://nas.local/", "hostname"),
        ("http://10.1.2.3/", "private"),
        ("http://172.16.0.1/", "private"),
        ("http://192.168.1.1/", "private"),
        ("http://100.64.0.1/", "private"),
        ("http://[fd00::1]/", "private"),
        ("http://169.254.169.254/latest/meta-data", "linkLocal"),
        ("http://[fe80::1]/", "linkLocal"),
        ("http://224.0.0.1/", "multicast"),
        ("http://0.0.0.0/", "unspecified"),
        ("http://192.0.2.1/", "reserved"),
        // In every spelling of an address.
        ("http://0x0a.1.2.3/", "private"),
        ("http://167838211/", "private"),
        ("http://[::ffff:10.1.2.3]/", "private"),
    ] {
        refuse(&test, url, reason).await;
    }
    // As given: nothing is repaired, and no name is looked up first.
    for (url, reason) in [
        (" https://1.1.1.1/", "scheme"),
        ("https:/1.1.1.1/", "scheme"),
        ("https:1.1.1.1", "scheme"),
        ("https:\\\\1.1.1.1/", "scheme"),
        ("https://1.1.1.1/\n", "hostname"),
        ("https://1.1\t.1.1/", "hostname"),
        ("https://1.1.1.1/a b", "hostname"),
        ("https://1.1.1.1\\@hooks.unresolvable.invalid/", "hostname"),
        ("https:///1.1.1.1/", "hostname"),
        ("https://1.1.1.1/ü", "hostname"),
        ("https://b\u{fc}cher.unresolvable.invalid/", "hostname"),
        ("https://1.1.1.1/{id}", "hostname"),
        ("https://1.1.1.1/%2", "hostname"),
    ] {
        refuse(&live, url, reason).await;
    }
    // No text may hold other control characters.
    let body = json!({"url": "https://1.1.1.1/\u{7f}", "events": ["thesis.created"]});
    live.post("/v1/webhooks", &body).await.invalid(&["url"]);
    refuse(&live, "http://1.1.1.1/", "scheme").await;
    refuse(&live, "https://10.1.2.3/", "private").await;
    // The networks that this installation allows are no exception from the other rules.
    refuse(&test, "http://127.0.0.1:6379/", "port").await;
    refuse(&live, "http://127.0.0.1:19999/", "scheme").await;
    assert!(test.all("/v1/webhooks").await.is_empty());
}

async fn they_need_their_scope(service: &Service) {
    let key = service.project().await.key(Environment::Test, &["theses:read", "events:read"]).await;
    let client = key.client;
    client.get("/v1/webhooks").await.error(403, "INSUFFICIENT_SCOPE");
    client.get("/v1/webhooks/wh_1").await.error(403, "INSUFFICIENT_SCOPE");
    client.get("/v1/webhooks/wh_1/deliveries").await.error(403, "INSUFFICIENT_SCOPE");
    client.delete("/v1/webhooks/wh_1").await.error(403, "INSUFFICIENT_SCOPE");
    client.post("/v1/webhooks", &json!({"wrong": true})).await.error(403, "INSUFFICIENT_SCOPE");
}
