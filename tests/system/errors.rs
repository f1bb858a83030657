//! The error envelope, on every kind of path.

use reqwest::Method;
use serde_json::json;

use crate::harness::{Client, Service, text};

on_both_stores![
    an_unknown_route_is_told,
    a_wrong_method_learns_which_are_right,
    a_body_that_is_no_json_is_refused,
    a_body_that_is_too_large_is_refused,
    unreadable_escapes_are_refused,
    a_key_in_the_query_string_is_refused,
    every_request_has_its_own_id,
];

async fn an_unknown_route_is_told(service: &Service) {
    let client = service.test_client().await;
    for path in ["/v2", "/v1/", "/v1/nothing", "/v1/theses/", "/v1/theses/a/b", "/v1/events/stream/x", "/V1", "//v1"] {
        client.get(path).await.error(404, "ROUTE_NOT_FOUND");
        client.with_key(None).post(path, &json!({})).await.error(404, "ROUTE_NOT_FOUND");
    }
}

async fn a_wrong_method_learns_which_are_right(service: &Service) {
    let client = service.test_client().await;
    for (path, allowed) in [
        ("/v1", vec!["GET"]),
        ("/v1/openapi.json", vec!["GET"]),
        ("/v1/me", vec!["GET"]),
        ("/v1/theses", vec!["GET"]),
        ("/v1/theses/th_1", vec!["GET"]),
        ("/v1/test/theses", vec!["POST"]),
        ("/v1/events/stream", vec!["GET"]),
        ("/v1/stream", vec!["GET"]),
        ("/v1/stream/tickets", vec!["POST"]),
        ("/v1/webhooks", vec!["GET", "POST"]),
        ("/v1/webhooks/wh_1", vec!["DELETE", "GET", "PATCH"]),
        ("/v1/webhooks/wh_1/rotate-secret", vec!["POST"]),
        ("/v1/webhooks/wh_1/test", vec!["POST"]),
        ("/v1/webhook-deliveries/del_1/replay", vec!["POST"]),
        ("/v1/webhooks/wh_1/deliveries", vec!["GET"]),
    ] {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "QUERY"] {
            if allowed.contains(&method) {
                continue;
            }
            let answer = client.send(client.request(method.parse().unwrap(), path)).await;
            answer.error(405, "METHOD_NOT_ALLOWED");
            let mut told: Vec<&str> = answer.header("allow").split(", ").collect();
            told.sort_unstable();
            let mut expected = [&allowed[..], &["OPTIONS"]].concat();
            if allowed.contains(&"GET") {
                expected.push("HEAD");
            }
            expected.sort_unstable();
            assert_eq!(told, expected, "{path}");
        }
    }
}

async fn post(client: &Client, kind: Option<&str>, body: impl Into<reqwest::Body>) -> crate::harness::Answer {
    let request = client.request(Method::POST, "/v1/test/theses").body(body);
    let request = match kind {
        Some(kind) => request.header("content-type", kind),
        None => request,
    };
    client.send(request).await
}

const JSON: Option<&str> = Some("application/json");

async fn a_body_that_is_no_json_is_refused(service: &Service) {
    let client = service.test_client().await;
    let good = json!({"handle": "writer", "token": "BODY", "text": "x"}).to_string();
    for broken in ["{", "{\"handle\": }", "nonsense", "{} {}", "{'a': 1}", &format!("{good},")] {
        post(&client, JSON, broken.to_owned()).await.error(400, "INVALID_REQUEST");
    }
    post(&client, JSON, b"{\"text\": \"\xff\"}".to_vec()).await.error(400, "INVALID_REQUEST");
    for kind in [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp")] {
        post(&client, kind, good.clone()).await.error(400, "INVALID_REQUEST");
    }
    for other in ["[]", "7", "null", "\"text\""] {
        post(&client, JSON, other).await.invalid(&["body"]);
    }
    // An empty body is an empty object.
    post(&client, None, "").await.invalid(&["handle", "token", "text"]);
    post(&client, Some("Application/JSON; charset=utf-8"), good).await.ok(201);
}

async fn a_body_that_is_too_large_is_refused(service: &Service) {
    let client = service.test_client().await;
    let padded = |length: usize| {
        let body = json!({"handle": "writer", "token": "BODY", "text": "x"}).to_string();
        format!("{body}{}", " ".repeat(length - body.len()))
    };
    post(&client, JSON, padded(64 * 1024)).await.ok(201);
    for length in [64 * 1024 + 1, 70_000, 1_000_000] {
        post(&client, JSON, padded(length)).await.error(413, "PAYLOAD_TOO_LARGE");
    }
    // The size is checked before the content type.
    post(&client, Some("text/plain"), padded(70_000)).await.error(413, "PAYLOAD_TOO_LARGE");
}

async fn unreadable_escapes_are_refused(service: &Service) {
    let client = service.test_client().await;
    for path in [
        "/v1/theses?token=%",
        "/v1/theses?token=%2",
        "/v1/theses?token=%zz",
        "/v1/theses?token=%ff",
        "/v1/theses?%ff=1",
        "/v1/events?nothing=%+1",
        "/v1/me?x=%zz",
        "/v1/theses/th_1?x=%zz",
        "/v1/theses/%zz",
        "/v1/events/%ff",
        "/v1/webhooks/%E2%82/deliveries",
        "/v1/events/stream?token=%f",
    ] {
        client.get(path).await.error(400, "INVALID_REQUEST");
    }
    client.get("/v1/theses?token=%24RUN&handle=%40sbx%5Frunner&chain=s%61ndbox").await.ok(200);
}

async fn a_key_in_the_query_string_is_refused(service: &Service) {
    let client = service.test_client().await;
    for path in
        ["/v1/me?api_key=x", "/v1/me?a=b&key=x", "/v1/me?key", "/v1/openapi.json?key=1", "/v1/events/stream?api_key=x"]
    {
        client.get(path).await.error(400, "INVALID_REQUEST");
        client.with_key(None).get(path).await.error(400, "INVALID_REQUEST");
    }
    client.get("/v1/me?monkey=1&keys=2&q=key").await.invalid(&["monkey", "keys", "q"]);
}

async fn every_request_has_its_own_id(service: &Service) {
    let client = service.test_client().await;
    let forged = client.request(Method::GET, "/v1/me").header("x-service-request-id", "req_forged");
    let answers = [
        client.get("/v1").await,
        client.get("/v1/me").await,
        client.send(forged).await,
        client.get("/v1/theses?limit=0").await,
        client.get("/v1/nothing").await,
        client.with_key(None).get("/v1/me").await,
    ];
    let mut ids: Vec<&str> = answers.iter().map(|answer| answer.header("x-service-request-id")).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), answers.len());
    assert!(!ids.contains(&"req_forged"));
    assert_eq!(text(&answers[3].json()["error"], "request_id"), answers[3].header("x-service-request-id"));
}
