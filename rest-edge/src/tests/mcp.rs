//! Messages of the Model Context Protocol through the whole edge, to a fake core.

use std::sync::Arc;

use http::{HeaderMap, Request, StatusCode};
use prost::Message as _;
use serde_json::{Value, json};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};
use tokio_util::sync::CancellationToken;

use super::fake::{FakeCore, ask_at, edge};
use crate::edge::Edge;

const KEY: (&str, &str) = ("authorization", "Bearer k");

/// Every tool, with arguments and the operation that it calls.
fn calls() -> [(&'static str, Value, &'static str); 9] {
    let claim = json!({"handle": "@a", "token": "$RUN", "created_after": "2026-01-01T00:00:00Z", "receipt": true});
    [
        ("search", json!({"q": "run", "types": "theses"}), "SearchService/Search"),
        ("list_theses", json!({"token": "$RUN & more", "handle": null}), "ThesisService/ListTheses"),
        ("get_thesis", json!({"id": "th_1"}), "ThesisService/GetThesis"),
        ("get_profile", json!({"profile": "@a/b"}), "ProfileService/GetProfile"),
        ("get_token", json!({"token": "base:0x1"}), "TokenService/GetToken"),
        ("get_token_activity", json!({"token": "RUN", "recent": 2}), "TokenService/GetTokenActivity"),
        ("verify_thesis", claim, "ThesisService/VerifyThesis"),
        ("list_events", json!({"types": ["thesis.created"], "text": ["a,b", "c"]}), "EventService/ListEvents"),
        ("get_usage", json!({}), "MetaService/GetUsage"),
    ]
}

fn start(core: &Arc<FakeCore>) -> Edge {
    edge(core, CancellationToken::new())
}

/// Posts a message with these headers.
async fn post(edge: &Edge, headers: &[(&str, &str)], message: &Value) -> (StatusCode, HeaderMap, Value) {
    let mut request = Request::post("/mcp").header("host", "edge.test").header("content-type", "application/json");
    request = request.header("accept", "application/json, text/event-stream");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let body: &'static str = message.to_string().leak();
    ask_at(edge, request.body(body).unwrap()).await
}

/// Posts a request with a key.
async fn ask(edge: &Edge, method: &str, params: Value) -> (StatusCode, HeaderMap, Value) {
    post(edge, &[KEY], &json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
}

/// The result of a request that succeeds.
async fn result(edge: &Edge, method: &str, params: Value) -> Value {
    let (status, _, mut body) = ask(edge, method, params).await;
    assert_eq!((status, &body["id"]), (StatusCode::OK, &json!(1)), "{body}");
    assert!(body["result"].is_object(), "{body}");
    body["result"].take()
}

async fn call(edge: &Edge, tool: &str, arguments: Value) -> Value {
    result(edge, "tools/call", json!({"name": tool, "arguments": arguments})).await
}

/// The text of a call that fails.
async fn refusal(edge: &Edge, tool: &str, arguments: Value) -> String {
    let result = call(edge, tool, arguments).await;
    assert_eq!((&result["isError"], result.get("structuredContent")), (&json!(true), None), "{result}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

fn failing(code: ErrorCode) -> Arc<FakeCore> {
    FakeCore::new(move |_, _| Err(ApiError::new(code, "no").with_retry_after(7).to_status("req_core")))
}

#[tokio::test]
async fn every_tool_calls_its_operation() {
    let core = FakeCore::plain();
    let edge = start(&core);
    for (tool, arguments, operation) in calls() {
        let result = call(&edge, tool, arguments).await;
        assert_eq!(result["isError"], false, "{tool}: {result}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"], "{tool}");
        let seen = core.seen.lock();
        let last = seen.last().unwrap();
        assert_eq!(last.operation, operation);
        let header = |name: &str| last.headers[name].to_str().unwrap();
        assert_eq!((header("authorization"), header("x-client-address")), ("Bearer k", "192.0.2.1"), "{tool}");
    }
    let seen = core.seen.lock();
    let listed = v1::ListThesesRequest::decode(seen[1].message.clone()).unwrap();
    assert_eq!((listed.token.as_deref(), listed.handle, listed.limit), (Some("$RUN & more"), None, Some(10)));
    let profile = v1::GetProfileRequest::decode(seen[3].message.clone()).unwrap();
    assert_eq!(profile.r#ref.as_deref(), Some("@a/b"));
    let activity = v1::GetTokenActivityRequest::decode(seen[5].message.clone()).unwrap();
    assert_eq!((activity.r#ref.as_str(), activity.recent), ("RUN", Some(2)));
    let claim = v1::VerifyThesisRequest::decode(seen[6].message.clone()).unwrap();
    assert_eq!((claim.handle.as_deref(), claim.receipt), (Some("@a"), Some(true)));
    let events = v1::ListEventsRequest::decode(seen[7].message.clone()).unwrap();
    assert_eq!(events.filters.unwrap().text, ["a,b", "c"]);
}

#[tokio::test]
async fn tools_and_prompts_are_described() {
    let edge = start(&FakeCore::plain());
    let listed = result(&edge, "tools/list", json!({})).await;
    let tools = listed["tools"].as_array().unwrap();
    let names: Vec<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, calls().map(|(tool, ..)| tool));
    for tool in tools {
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert_eq!(tool["inputSchema"]["additionalProperties"], false, "{tool}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{tool}");
        assert!(!tool.to_string().contains("#/components"), "{tool}");
    }
    assert_eq!(tools[1]["inputSchema"]["properties"]["limit"]["default"], 10);
    assert_eq!(tools[4]["inputSchema"]["required"], json!(["token"]));

    let listed = result(&edge, "prompts/list", json!({})).await;
    assert_eq!(listed["prompts"].as_array().unwrap().len(), 3);
    let params = json!({"name": "did_the_author_say_so", "arguments": {"handle": "@ann", "token": "$RUN"}});
    let prompt = result(&edge, "prompts/get", params).await;
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("Did @ann post a thesis on $RUN between the time 30 days ago and now?"), "{text}");
    let params = json!({"name": "did_the_author_say_so", "arguments": {"handle": "{token}{x}", "token": "{handle}"}});
    let prompt = result(&edge, "prompts/get", params).await;
    let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("Did {token}{x} post a thesis on {handle} between "), "{text}");
    for prompt in listed["prompts"].as_array().unwrap() {
        let arguments = json!({"handle": "h", "token": "t", "after": "a", "before": "b"});
        let filled = result(&edge, "prompts/get", json!({"name": prompt["name"], "arguments": arguments})).await;
        let text = filled["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(!text.contains('{') && !text.contains('}'), "{text}");
    }
    for (wrong, message) in [
        (json!({"name": "did_the_author_say_so", "arguments": {"handle": "@ann"}}), "token: is required"),
        (json!({"name": "what_does_an_author_write", "arguments": {"handle": ["a"]}}), "handle: must be a string"),
        (json!({"name": "x"}), "there is no prompt `x`"),
    ] {
        let (_, _, body) = ask(&edge, "prompts/get", wrong).await;
        assert_eq!(body["error"]["code"], -32602, "{body}");
        assert!(body["error"]["message"].as_str().unwrap().starts_with(message), "{body}");
    }
}

#[tokio::test]
async fn errors_keep_the_apis_envelope_and_headers() {
    let edge = start(&failing(ErrorCode::RateLimited));
    let (status, headers, body) = ask(&edge, "tools/call", json!({"name": "get_usage"})).await;
    assert_eq!((status, &body["result"]["isError"]), (StatusCode::OK, &json!(true)), "{body}");
    let content = &body["result"]["content"];
    let error: Value = serde_json::from_str(content[0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&error["error"]["code"], &error["error"]["type"]), (&json!("RATE_LIMITED"), &json!("rate_limit")));
    assert_eq!(error["error"]["request_id"], headers["x-service-request-id"].to_str().unwrap());
    assert_eq!(content[1]["text"], "Call again in 7 s.");
    let names = ["x-ratelimit-limit", "retry-after", "content-type", "cache-control"];
    let values = names.map(|name| headers[name].to_str().unwrap());
    assert_eq!(values, ["300", "7", "application/json", "no-store"]);
}

#[tokio::test]
async fn wrong_arguments_are_refused_by_the_api() {
    let core = FakeCore::plain();
    let edge = start(&core);
    let refused = refusal(&edge, "list_theses", json!({"limit": "many", "tokn": "x"})).await;
    assert!(
        refused.contains("VALIDATION_FAILED") && refused.contains("limit") && refused.contains("`token`"),
        "{refused}"
    );
    core.seen.lock().clear();
    for arguments in [json!({"chain": "base"}), json!({"token": ""}), json!({"token": null})] {
        let refused = refusal(&edge, "get_token", arguments).await;
        assert!(refused.contains("VALIDATION_FAILED") && refused.contains("token: is required"), "{refused}");
    }
    for dots in [".", ".."] {
        let refused = refusal(&edge, "get_token_activity", json!({"token": dots})).await;
        assert!(refused.contains("token: must not be `.` or `..`"), "{refused}");
    }
    let (_, _, body) = ask(&edge, "tools/call", json!({"name": "delete_all"})).await;
    assert_eq!(body["error"]["code"], -32602, "{body}");
    let (status, _, body) = ask(&edge, "tools/call", json!({"name": "x".repeat(70_000)})).await;
    assert_eq!((status.as_u16(), &body["error"]["code"]), (413, &json!("PAYLOAD_TOO_LARGE")));
    assert!(core.seen.lock().is_empty());
}

#[tokio::test]
async fn an_array_or_object_in_place_of_a_text_is_refused_by_name() {
    let core = FakeCore::plain();
    let edge = start(&core);
    for (tool, arguments, rules) in [
        (
            "list_theses",
            json!({"token": {"a": 1}, "limit": [5]}),
            vec!["token: must be a string", "limit: must be a whole number"],
        ),
        ("list_theses", json!({"created_after": ["2031-01-01"]}), vec!["created_after: must be a string"]),
        ("list_events", json!({"types": {}}), vec!["types: must be a string or an array of strings"]),
        ("list_events", json!({"text": [["a"]]}), vec!["text: must be a string or an array of strings"]),
        ("list_events", json!({"token": ["A", null]}), vec!["token: must be a string or an array of strings"]),
        ("get_thesis", json!({"id": ["th_1"]}), vec!["id: must be a string"]),
        ("get_token", json!({"token": {}}), vec!["token: must be a string"]),
    ] {
        let refused = refusal(&edge, tool, arguments).await;
        assert!(refused.contains("VALIDATION_FAILED"), "{refused}");
        let errors: Value = serde_json::from_str(&refused).unwrap();
        let errors = errors["error"]["details"]["errors"].as_array().unwrap().iter();
        let errors =
            errors.map(|error| format!("{}: {}", error["param"].as_str().unwrap(), error["message"].as_str().unwrap()));
        let (mut errors, mut rules) = (errors.collect::<Vec<_>>(), rules);
        errors.sort_unstable();
        rules.sort_unstable();
        assert_eq!(errors, rules, "{tool}");
    }
    assert!(core.seen.lock().is_empty());
}

#[tokio::test]
async fn a_message_that_does_not_fit_the_protocol_is_refused_with_the_cause() {
    let edge = start(&FakeCore::plain());
    let bodies: [&'static [u8]; 11] = [
        b"",
        b"{",
        b"7",
        b"{}",
        br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
        br#"{"jsonrpc":"2.0","id":1}"#,
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}"#,
        br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\xff\"}",
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"a\":\"\xff\"}}",
        br#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":{"$serde_json::private::RawValue":"1"}}}"#,
    ];
    for body in bodies {
        let request = Request::post("/mcp").header("host", "edge.test").header(KEY.0, KEY.1);
        let request = request.header("content-type", "application/json");
        let request = request.header("accept", "application/json, text/event-stream").body(body).unwrap();
        let (status, _, answer) = ask_at(&edge, request).await;
        let shown = body.escape_ascii();
        assert_eq!((status.as_u16(), &answer["error"]["code"]), (400, &json!("INVALID_REQUEST")), "{shown}");
        assert!(answer["error"]["message"].as_str().unwrap().contains("JSON-RPC 2.0"), "{answer}");
    }
    for (method, params, code, message) in [
        ("tools/call", json!({"name": "search", "arguments": []}), -32602, "the parameters do not have the form"),
        ("tools/call", json!({}), -32602, "the parameters do not have the form"),
        ("prompts/get", json!({"name": 1}), -32602, "the parameters do not have the form"),
        ("tools/eat", json!({}), -32601, "there is no method `tools/eat`"),
        ("initialize", json!({}), -32601, "there is no method `initialize` with parameters of this form"),
    ] {
        let (_, headers, body) = ask(&edge, method, params).await;
        let error = &body["error"];
        assert!(error["code"] == code && error["message"].as_str().unwrap().starts_with(message), "{body}");
        assert_eq!(error["data"]["request_id"], headers["x-service-request-id"].to_str().unwrap());
    }
}

#[tokio::test]
async fn errors_before_the_api_have_the_id_of_the_message() {
    let edge = start(&FakeCore::plain());
    for (tool, arguments) in [("get_token", json!({})), ("list_theses", json!({"token": {}}))] {
        let (_, headers, body) = ask(&edge, "tools/call", json!({"name": tool, "arguments": arguments})).await;
        let error: Value = serde_json::from_str(body["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(error["error"]["request_id"], headers["x-service-request-id"].to_str().unwrap(), "{body}");
    }
    for (method, params) in [("tools/call", json!({"name": "delete_all"})), ("prompts/get", json!({"name": "x"}))] {
        let (_, headers, body) = ask(&edge, method, params).await;
        let id = headers["x-service-request-id"].to_str().unwrap();
        assert_eq!(body["error"]["data"]["request_id"], id, "{body}");
    }
}

#[tokio::test]
async fn a_message_needs_a_key_that_works() {
    let core = failing(ErrorCode::InvalidApiKey);
    let edge = start(&core);
    let handshake =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
    for (method, params) in [("initialize", handshake), ("tools/call", json!({"name": "get_usage"}))] {
        let (status, _, body) = ask(&edge, method, params).await;
        assert_eq!((status.as_u16(), &body["error"]["code"]), (401, &json!("INVALID_API_KEY")), "{method}");
    }
    core.seen.lock().clear();
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    let (status, _, _) = post(&edge, &[("x-forwarded-for", "198.51.100.1")], &message).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let seen = core.seen.lock();
    assert_eq!((seen.len(), seen[0].operation.as_str()), (1, "MetaService/GetMe"));
    assert!(!seen[0].headers.contains_key("authorization"));
}

#[tokio::test]
async fn only_post_without_a_foreign_origin_is_answered() {
    let edge = start(&FakeCore::plain());
    for method in ["GET", "DELETE", "OPTIONS"] {
        let request = Request::builder().method(method).uri("/mcp").header(KEY.0, KEY.1).body("").unwrap();
        let (status, headers, body) = ask_at(&edge, request).await;
        assert_eq!((status.as_u16(), headers["allow"].to_str().unwrap()), (405, "POST"), "{method}");
        assert_eq!(body["error"]["code"], "METHOD_NOT_ALLOWED");
    }
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    for (origin, expected) in [
        ("http://edge.test", 200),
        ("http://edge.test:80", 200),
        ("http://edge.test:81", 403),
        ("https://edge.test", 403),
        ("null", 403),
    ] {
        let (status, headers, _) = post(&edge, &[KEY, ("origin", origin)], &message).await;
        assert_eq!(status.as_u16(), expected, "{origin}");
        assert!(!headers.contains_key("access-control-allow-origin"));
    }
}

#[tokio::test]
async fn clients_of_all_revisions_connect() {
    let edge = start(&FakeCore::plain());
    for (requested, answered) in
        [("2025-06-18", "2025-06-18"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25")]
    {
        let about = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": requested, "capabilities": {}, "clientInfo": about});
        let connected = result(&edge, "initialize", params).await;
        assert_eq!(connected["protocolVersion"], answered);
        assert_eq!(connected["serverInfo"]["name"], "trade-thesis");
        assert!(connected["instructions"].as_str().unwrap().contains("The key is a "), "{connected}");
    }
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&edge, &[KEY], &initialized).await.0, StatusCode::ACCEPTED);

    // From this revision on each message is self-contained, and its headers name the method.
    let revision = "2026-07-28";
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": revision,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (method, name) in [("server/discover", None), ("tools/call", Some("get_usage"))] {
        let mut params = json!({"_meta": meta});
        let mut headers = vec![KEY, ("mcp-protocol-version", revision), ("mcp-method", method)];
        if let Some(name) = name {
            params["name"] = json!(name);
            headers.push(("mcp-name", name));
        }
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (status, _, body) = post(&edge, &headers, &message).await;
        assert_eq!((status, &body["result"]["resultType"]), (StatusCode::OK, &json!("complete")), "{body}");
        if name.is_none() {
            assert!(body["result"]["supportedVersions"].as_array().unwrap().contains(&json!(revision)), "{body}");
        }
    }
}
