//! Access: keys, projects, approval, features, scopes, in the order in which they are checked.

use reqwest::Method;
use serde_json::json;
use thesis_proto::v1::Environment;

use crate::harness::{ALL_SCOPES, Service, TEST_KEY, eventually, now_ms};

on_both_stores![
    a_key_must_come_as_bearer,
    a_key_must_exist,
    revocation_is_immediate,
    a_key_may_expire,
    a_key_works_from_its_networks_only,
    an_archived_projects_keys_end,
    live_keys_need_approval,
    each_route_needs_its_scope,
    the_first_check_that_fails_answers,
];

/// Every route for keys, with its scope.
const ROUTES: [(&str, &str, Option<&str>); 15] = [
    ("GET", "/v1/me", None),
    ("GET", "/v1/me/usage", None),
    ("GET", "/v1/theses", Some("theses:read")),
    ("GET", "/v1/theses/th_1", Some("theses:read")),
    ("POST", "/v1/test/theses", Some("theses:read")),
    ("GET", "/v1/events", Some("events:read")),
    ("GET", "/v1/events/evt_1", Some("events:read")),
    ("GET", "/v1/events/stream?from_cursor=x", Some("streams:read")),
    ("GET", "/v1/webhooks", Some("webhooks:write")),
    ("POST", "/v1/webhooks", Some("webhooks:write")),
    ("GET", "/v1/webhooks/wh_1", Some("webhooks:write")),
    ("DELETE", "/v1/webhooks/wh_1", Some("webhooks:write")),
    ("GET", "/v1/webhooks/wh_1/deliveries", Some("webhooks:write")),
    ("GET", "/v1/alerts", Some("alerts:write")),
    ("DELETE", "/v1/alerts/al_1", Some("alerts:write")),
];

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

async fn a_key_must_come_as_bearer(service: &Service) {
    let client = service.anonymous();
    for (name, path, _) in ROUTES {
        client.send(client.request(method(name), path)).await.error(401, "MISSING_API_KEY");
    }
    let other = service.anonymous();
    let basic = format!("Basic {TEST_KEY}");
    for value in ["Bearer", "Bearer ", "Basic dXNlcjpwYXNz", &basic, TEST_KEY, "bearer"] {
        let request = other.request(Method::GET, "/v1/me").header("authorization", value);
        other.send(request).await.error(401, "MISSING_API_KEY");
    }
    let lower = other.request(Method::GET, "/v1/me").header("authorization", format!("bearer {TEST_KEY}"));
    other.send(lower).await.ok(200);
}

async fn a_key_must_exist(service: &Service) {
    let client = service.anonymous();
    let unknown = TEST_KEY.replace("SystemTests", "OtherTests0");
    let cut = &TEST_KEY[..TEST_KEY.len() - 1];
    let other_environment = TEST_KEY.replace("svc_test_", "svc_live_").replace("qrs", "qrS");
    for key in [&unknown, cut, &format!("{TEST_KEY}0"), "x", "svc_test_", &TEST_KEY.to_lowercase(), &other_environment]
    {
        client.with_key(Some(key)).get("/v1/me").await.error(401, "INVALID_API_KEY");
    }
}

async fn revocation_is_immediate(service: &Service) {
    let project = service.project().await;
    let (key, other) = (project.key(Environment::Test, &[]).await, project.key(Environment::Test, &[]).await);
    key.client.get("/v1/me").await.ok(200);
    project.revoke(&key).await;
    key.client.get("/v1/me").await.error(401, "API_KEY_REVOKED");
    key.client.get("/v1/theses").await.error(401, "API_KEY_REVOKED");
    other.client.get("/v1/me").await.ok(200);
    // A repeat changes nothing.
    project.revoke(&key).await;
    key.client.get("/v1/me").await.error(401, "API_KEY_REVOKED");
}

async fn a_key_may_expire(service: &Service) {
    let project = service.project().await;
    let past = project.key_until(Environment::Test, &[], Some(now_ms() - 1)).await;
    past.client.get("/v1/me").await.error(401, "API_KEY_EXPIRED");
    let end = now_ms() + 1_500;
    let soon = project.key_until(Environment::Test, &[], Some(end)).await;
    soon.client.get("/v1/me").await.ok(200);
    eventually("the key's end", crate::harness::SOON, async || (now_ms() > end).then_some(())).await;
    soon.client.get("/v1/me").await.error(401, "API_KEY_EXPIRED");
    // For a revoked key, the revocation comes first.
    project.revoke(&past).await;
    past.client.get("/v1/me").await.error(401, "API_KEY_REVOKED");
}

async fn a_key_works_from_its_networks_only(service: &Service) {
    let project = service.project().await;
    let key = project.key_from(&["192.0.2.0/24", "2001:db8::1"]).await.client;
    key.get("/v1/me").await.error(403, "ADDRESS_NOT_ALLOWED");
    for address in ["192.0.2.77", "2001:db8::1", "::ffff:192.0.2.1"] {
        key.at(address).get("/v1/me").await.ok(200);
    }
    for address in ["192.0.3.1", "2001:db8::2"] {
        key.at(address).get("/v1/theses").await.error(403, "ADDRESS_NOT_ALLOWED");
    }
    // A ticket is made for browsers elsewhere.
    let near = key.at("192.0.2.1");
    let ticket = near.send(near.request(Method::POST, "/v1/stream/tickets")).await.ok(201);
    let path = format!("/v1/events/stream?ticket={}", crate::harness::text(&ticket, "ticket"));
    let elsewhere = service.anonymous();
    let response = elsewhere.request(Method::GET, &path).send().await.unwrap();
    assert_eq!(response.status().as_u16(), 200);
}

async fn an_archived_projects_keys_end(service: &Service) {
    let project = service.project().await;
    let (test, live) = (project.test().await, project.live().await);
    let unapproved = service.project().await;
    let waiting = unapproved.key(Environment::Live, ALL_SCOPES).await;
    project.archive().await;
    unapproved.archive().await;
    for client in [test, live, waiting.client] {
        for (name, path, _) in ROUTES {
            client.send(client.request(method(name), path)).await.error(403, "PROJECT_ARCHIVED");
        }
    }
}

async fn live_keys_need_approval(service: &Service) {
    let project = service.project().await;
    let live = project.key(Environment::Live, &["search:read"]).await.client;
    for (name, path, _) in ROUTES {
        live.send(live.request(method(name), path)).await.error(403, "LIVE_ACCESS_NOT_APPROVED");
    }
    project.test().await.get("/v1/me").await.ok(200);
    project.approve().await;
    live.get("/v1/me").await.ok(200);
    project.withdraw().await;
    live.get("/v1/me").await.error(403, "LIVE_ACCESS_NOT_APPROVED");
}

async fn each_route_needs_its_scope(service: &Service) {
    let project = service.project().await;
    for granted in ["search:read", "theses:read", "events:read", "streams:read", "webhooks:write", "alerts:write"] {
        let client = project.key(Environment::Test, &[granted]).await.client;
        for (name, path, scope) in ROUTES {
            let answer = client.send(client.request(method(name), path)).await;
            if scope.is_none_or(|scope| scope == granted) {
                assert!([200, 404, 422, 400].contains(&answer.status), "{granted} {name} {path}: {}", answer.text);
            } else {
                answer.error(403, "INSUFFICIENT_SCOPE");
            }
        }
    }
}

async fn the_first_check_that_fails_answers(service: &Service) {
    let project = service.project().await;
    // A key in the query string comes before route, method and everything else.
    let client = project.test().await;
    for path in
        ["/v1/me?api_key=x", "/v1/me?key=", "/v1/nothing?a=1&key=x", "/v1?%6bey=x", "/v1/theses?api%5Fkey=1&limit=0"]
    {
        client.get(path).await.error(400, "INVALID_REQUEST");
        client.with_key(None).delete(path).await.error(400, "INVALID_REQUEST");
    }
    // Route and method come before the key.
    client.with_key(None).get("/v1/nothing").await.error(404, "ROUTE_NOT_FOUND");
    client.with_key(None).delete("/v1/me").await.error(405, "METHOD_NOT_ALLOWED");
    // The key comes before the shape, whatever the error in the shape.
    let nobody = service.anonymous();
    nobody.get("/v1/theses?limit=0").await.error(401, "MISSING_API_KEY");
    nobody.get("/v1/theses?token=%zz").await.error(401, "MISSING_API_KEY");
    nobody.get("/v1/theses/%zz").await.error(401, "MISSING_API_KEY");
    let large = nobody.request(Method::POST, "/v1/test/theses").body("x".repeat(70_000));
    nobody.send(large).await.error(401, "MISSING_API_KEY");
    // The scope comes before the test key, and the test key before the shape.
    project.approve().await;
    let narrow = project.key(Environment::Live, &["events:read"]).await.client;
    let broken = |client: &crate::harness::Client| {
        client.request(Method::POST, "/v1/test/theses").header("content-type", "application/json").body("{")
    };
    narrow.send(broken(&narrow)).await.error(403, "INSUFFICIENT_SCOPE");
    let live = project.live().await;
    live.send(broken(&live)).await.error(403, "TEST_KEY_REQUIRED");
    client.send(broken(&client)).await.error(400, "INVALID_REQUEST");
    // The shape comes before the history window, and the window before the look-up.
    let day = service.project_on("day").await.test().await;
    day.get("/v1/theses?since=9d&limit=0").await.invalid(&["limit"]);
    day.get("/v1/theses?since=9d&handle=nobody").await.error(403, "HISTORY_LIMIT");
    // A URL is checked after the rest of the request.
    let both = json!({"url": "http://10.0.0.1/", "events": []});
    client.post("/v1/webhooks", &both).await.invalid(&["events"]);
}

#[tokio::test]
async fn a_feature_that_is_off_is_not_there() {
    let off = ["PROFILES_API_ENABLED", "THESES_API_ENABLED", "STREAMS_ENABLED"];
    let service = Service::embedded(|setup| off.iter().fold(setup, |setup, flag| setup.set(flag, "false")));
    let project = service.project().await;
    let client = project.test().await;
    for path in [
        "/v1/profiles",
        "/v1/profiles/sbx_1",
        "/v1/theses",
        "/v1/theses/th_1",
        "/v1/theses?limit=0",
        "/v1/theses?limit=abc&sort=%zz",
        "/v1/theses?limit=abc",
        "/v1/events/stream",
        "/v1/events/stream?types=x",
    ] {
        client.get(path).await.error(404, "FEATURE_DISABLED");
        // The flag comes before the scope, and the project before the flag.
        project.key(Environment::Test, &["search:read"]).await.client.get(path).await.error(404, "FEATURE_DISABLED");
        service.anonymous().get(path).await.error(401, "MISSING_API_KEY");
    }
    client.post("/v1/verify/thesis", &json!({"x": 1})).await.error(404, "FEATURE_DISABLED");
    client.get("/v1/events").await.ok(200);
    project.archive().await;
    client.get("/v1/theses").await.error(403, "PROJECT_ARCHIVED");
}
