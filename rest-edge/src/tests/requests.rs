//! The order of checks, the envelope on every path, and the data that core receives.

use std::sync::Arc;

use http::{Request, StatusCode};
use prost::Message as _;
use serde_json::{Value, json};
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    v1,
};

use super::fake::{FakeCore, ask, simply};

fn post(target: &str, kind: &str, body: &'static str) -> Request<&'static str> {
    Request::builder().method("POST").uri(target).header("content-type", kind).body(body).unwrap()
}

/// The operation and the error of the last `Refuse` call.
fn refusal(core: &Arc<FakeCore>) -> (String, v1::RequestError) {
    let seen = core.seen.lock();
    let last = seen.last().unwrap();
    assert_eq!(last.operation, "GateService/Refuse");
    let refusal = v1::RefuseRequest::decode(last.message.clone()).unwrap();
    (refusal.operation, refusal.error.unwrap())
}

#[tokio::test]
async fn a_key_in_the_query_string_is_refused_before_anything_else() {
    let core = FakeCore::plain();
    for target in ["/v1/theses?key=1", "/v1?api%5Fkey=1", "/nowhere?a=1&%6bey", "/v1/theses/a?api_key=&limit=x"] {
        for method in ["GET", "PUT"] {
            let (status, headers, body) = simply(&core, method, target).await;
            assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &json!("INVALID_REQUEST")), "{target}");
            assert_eq!(body["error"]["request_id"], headers["x-service-request-id"].to_str().unwrap());
        }
    }
    assert!(core.seen.lock().is_empty());
}

#[tokio::test]
async fn unknown_routes_and_methods_get_the_envelope() {
    let core = FakeCore::plain();
    for target in ["/v1/", "/v2/theses", "/v1/theses/", "/v1/theses/a/b", "/v1/%zz"] {
        let (status, _, body) = simply(&core, "GET", target).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (404, &json!("ROUTE_NOT_FOUND")), "{target}");
        assert_eq!(body["error"]["type"], "not_found");
    }
    let (status, headers, body) = simply(&core, "PUT", "/v1/webhooks/wh_1").await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (405, &json!("METHOD_NOT_ALLOWED")));
    assert_eq!(headers["allow"], "GET, PATCH, DELETE, HEAD, OPTIONS");
    assert!(core.seen.lock().is_empty());
}

#[tokio::test]
async fn core_receives_the_caller_and_its_rate_headers_come_back() {
    let core = FakeCore::plain();
    let request = Request::get("/v1/theses/th%5F1")
        .header("authorization", "bearer odd  key")
        .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
        .header("idempotency-key", "not for GET")
        .header("x-forwarded-for", "198.51.100.1")
        .header("x-service-token", "forged")
        .body("");
    let (status, headers, body) = ask(&core, request.unwrap()).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(headers["x-ratelimit-limit"], "300");
    assert!(!headers.contains_key("grpc-status"));
    assert_eq!(body["object"], "thesis");
    let seen = core.seen.lock();
    assert_eq!(v1::GetThesisRequest::decode(seen[0].message.clone()).unwrap().id, "th_1");
    let header = |name| seen[0].headers.get(name).map(|value| value.to_str().unwrap());
    assert_eq!(header("authorization"), Some("bearer odd  key"));
    assert_eq!(header("traceparent"), Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"));
    assert_eq!(header("x-service-token"), Some("service-token"));
    assert_eq!(header("x-client-address"), Some("192.0.2.1"));
    assert_eq!(header("x-service-request-id"), Some(headers["x-service-request-id"].to_str().unwrap()));
    assert_eq!(header("x-service-request-id").map(str::len), Some(28));
    assert_eq!(header("idempotency-key"), None);
    // Sensitive headers stay out of logs and of HTTP/2's header table.
    assert!(["authorization", "x-service-token"].iter().all(|name| seen[0].headers[*name].is_sensitive()));
    let shown = format!("{:?}", seen[0].headers);
    assert!(!shown.contains("odd  key") && !shown.contains("\"service-token\""), "{shown}");
}

#[tokio::test]
async fn an_error_of_core_becomes_the_envelope() {
    let core = FakeCore::new(|_, _| {
        let error =
            ApiError::new(ErrorCode::RateLimited, "slow down").with_retry_after(7).with_details(json!({"a": 1}));
        Err(error.to_status("req_core"))
    });
    let (status, headers, body) = simply(&core, "GET", "/v1/me").await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(headers["retry-after"], "7");
    assert_eq!(headers["x-ratelimit-limit"], "300");
    let id = headers["x-service-request-id"].to_str().unwrap();
    let expected = json!({"error": {"type": "rate_limit", "code": "RATE_LIMITED", "message": "slow down",
        "request_id": id, "details": {"a": 1}, "doc_url": "http://edge.test/docs/errors#rate_limited"}});
    assert_eq!(body, expected);
}

#[tokio::test]
async fn a_core_that_cannot_be_reached_is_503() {
    let core = FakeCore::new(|_, _| Err(tonic::Status::unavailable("connection refused")));
    let (status, headers, body) = simply(&core, "GET", "/v1/me").await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (503, &json!("SERVICE_UNAVAILABLE")));
    assert!(headers.contains_key("retry-after"));
}

#[tokio::test(start_paused = true)]
async fn a_core_that_does_not_answer_is_503() {
    let core = FakeCore::new(|_, _| Ok(Box::pin(futures::stream::pending())));
    for target in ["/v1/me", "/v1/events/stream"] {
        let (status, _, body) = simply(&core, "GET", target).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (503, &json!("SERVICE_UNAVAILABLE")), "{target}");
    }
}

#[tokio::test]
async fn core_validates_readable_fields_and_all_errors_are_reported_in_order() {
    let core = FakeCore::plain();
    let found = ["ref", "token", "since", "limit", "filters.x"];
    *core.found.lock() = ApiError::validation(&found.map(|param| FieldError::new(param, "found by core")));
    let target = "/v1/theses?limit=abc&sort=up&created_after=noon&chain=a&limit=7&chain=b&chain=c&token=&x=1&x=2";
    let (status, headers, body) = simply(&core, "GET", target).await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (422, &json!("VALIDATION_FAILED")));
    assert_eq!(body["error"]["message"], "ref: found by core");
    assert_eq!(body["error"]["param"], "ref");
    let errors = body["error"]["details"]["errors"].as_array().unwrap();
    let values = |name| errors.iter().map(|error| error[name].as_str().unwrap()).collect::<Vec<_>>();
    let params = ["ref", "filters.x", "token", "chain", "created_after", "since", "sort", "limit", "x"];
    assert_eq!(values("param"), params);
    assert_eq!(values("message").iter().filter(|message| **message == "found by core").count(), 4);
    assert_eq!(headers["x-ratelimit-limit"], "300");
    let seen = core.seen.lock();
    assert_eq!((seen.len(), seen[0].operation.as_str()), (1, "ThesisService/ListTheses"));
    let partial = v1::ListThesesRequest::decode(seen[0].message.clone()).unwrap();
    assert_eq!((partial.token.as_deref(), partial.chain.as_deref(), partial.limit), (Some(""), Some("a"), None));
}

#[tokio::test]
async fn another_failure_of_core_is_reported_alone() {
    let core = FakeCore::plain();
    *core.found.lock() = ApiError::new(ErrorCode::InsufficientScope, "no");
    let (status, _, body) = simply(&core, "GET", "/v1/theses?limit=abc").await;
    assert_eq!((status.as_u16(), &body["error"]["details"]), (403, &Value::Null));
}

#[tokio::test]
async fn broken_escapes_are_400_on_every_route() {
    for target in ["/v1/theses?q=%zz", "/v1/theses?q=%ff", "/v1/me?%", "/v1/theses/%ff", "/v1/webhooks/a%2", "/v1?%f"] {
        let (status, _, body) = simply(&FakeCore::plain(), "GET", target).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &json!("INVALID_REQUEST")), "{target}");
    }
}

#[tokio::test]
async fn bodies_of_the_wrong_form() {
    static LARGE: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| " ".repeat(70 * 1024));
    let json = "application/json";
    let cases = [
        (json, "{", 400, "INVALID_REQUEST"),
        ("text/plain", "{}", 400, "INVALID_REQUEST"),
        (json, LARGE.as_str(), 413, "PAYLOAD_TOO_LARGE"),
        (json, "3", 422, "VALIDATION_FAILED"),
    ];
    for (kind, text, status, code) in cases {
        let core = FakeCore::plain();
        let (got, _, body) = ask(&core, post("/v1/test/theses", kind, text)).await;
        assert_eq!((got.as_u16(), &body["error"]["code"]), (status, &json!(code)), "{body}");
        assert_eq!(refusal(&core).0, "TestDataService/CreateTestThesis");
    }
}

#[tokio::test]
async fn a_typed_body_reaches_core_with_its_idempotency_key() {
    let core = FakeCore::plain();
    let mut request = post("/v1/test/theses", "application/json", r#"{"handle": "@a", "token": "", "text": "é"}"#);
    request.headers_mut().insert("idempotency-key", "k 1".parse().unwrap());
    let (status, _, body) = ask(&core, request).await;
    assert_eq!((status, &body["object"]), (StatusCode::CREATED, &json!("test_thesis")));
    let seen = core.seen.lock();
    let sent = v1::CreateTestThesisRequest::decode(seen[0].message.clone()).unwrap();
    let expected = v1::CreateTestThesisRequest {
        handle: Some("@a".to_owned()),
        token: Some(String::new()),
        text: Some("é".to_owned()),
    };
    assert_eq!(sent, expected);
    assert_eq!(seen[0].headers["idempotency-key"], "k 1");
}

#[tokio::test]
async fn an_idempotency_key_must_be_printable_and_short() {
    for key in ["".to_owned(), "é".to_owned(), "x".repeat(256)] {
        let core = FakeCore::plain();
        let mut request = post("/v1/test/theses", "application/json", "{}");
        request.headers_mut().insert("idempotency-key", http::HeaderValue::from_bytes(key.as_bytes()).unwrap());
        let (status, _, body) = ask(&core, request).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &json!("INVALID_REQUEST")));
        refusal(&core);
    }
}

#[tokio::test]
async fn discovery_names_what_exists() {
    let (status, _, body) = simply(&FakeCore::plain(), "GET", "/v1").await;
    let openapi = "http://edge.test/v1/openapi.json";
    let websocket = "ws://edge.test/v1/stream";
    let expected: Value = json!({
        "object": "discovery", "version": "1.0.0", "openapi": openapi, "websocket": websocket, "status": "ok",
        "documentation": "http://edge.test/docs", "reference": "http://edge.test/docs/reference",
    });
    assert_eq!((status, body), (StatusCode::OK, expected));
}
