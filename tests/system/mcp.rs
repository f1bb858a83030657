//! The Model Context Protocol: tools return the data of the REST API, with the rights and limits of the key. Each
//! message goes to another edge, since edges keep no state of it.

use reqwest::Method;
use serde_json::{Value, json};
use thesis_proto::v1::Environment;

use crate::{
    harness::{Answer, Client, SOON, Service, eventually, text},
    receipts::{assert_is_of, proven, sandbox_thesis},
};

on_both_stores![
    tools_give_what_the_api_gives,
    a_page_says_how_to_get_the_next,
    a_verdict_comes_with_its_receipt,
    rights_and_limits_are_those_of_the_key,
];

async fn post(client: &Client, method: &str, params: Value) -> Answer {
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let request = client.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream");
    client.send(request.json(&message)).await
}

/// The result of a tool that succeeds.
async fn call(client: &Client, tool: &str, arguments: Value) -> Value {
    let mut answer = post(client, "tools/call", json!({"name": tool, "arguments": arguments})).await.ok(200);
    assert_eq!(answer["result"]["isError"], false, "{tool}: {answer}");
    answer["result"]["structuredContent"].take()
}

/// The API's error of a tool that fails.
async fn refusal(client: &Client, tool: &str, arguments: Value) -> Value {
    let answer = post(client, "tools/call", json!({"name": tool, "arguments": arguments})).await;
    let body = answer.ok(200);
    assert_eq!(body["result"]["isError"], true, "{tool}: {body}");
    let mut envelope: Value = serde_json::from_str(text(&body["result"]["content"][0], "text")).unwrap();
    assert_eq!(text(&envelope["error"], "request_id"), answer.header("x-service-request-id"));
    envelope["error"].take()
}

async fn tools_give_what_the_api_gives(service: &Service) {
    let client = service.test_client().await;
    let (thesis, event) = client.thesis("mcp_ann", "MCPONE", "Because a model reads it.").await;
    let id = text(&thesis, "id");
    let read = call(&client, "get_thesis", json!({"id": id})).await;
    for name in ["id", "text", "created_at", "updated_at", "public_url", "likes"] {
        assert_eq!(read[name], thesis[name], "{name}");
    }
    assert_eq!((&read["handle"], &read["token"]["id"]), (&thesis["profile"]["handle"], &thesis["token"]["id"]));
    let listed = call(&client, "list_theses", json!({"token": "MCPONE", "handle": "mcp_ann"})).await;
    assert_eq!((&listed["theses"][0]["id"], &listed["next_cursor"]), (&thesis["id"], &Value::Null));
    let token = call(&client, "get_token", json!({"token": "$MCPONE"})).await;
    assert_eq!((&token["id"], &token["thesis_count"]), (&thesis["token"]["id"], &json!(1)));
    let activity = call(&client, "get_token_activity", json!({"token": token["id"]})).await;
    assert_eq!((&activity["thesis_count_24h"], &activity["hours"][0]["theses"]), (&json!(1), &json!(1)));
    assert_eq!(activity["recent_theses"][0]["id"], thesis["id"]);
    let profile = call(&client, "get_profile", json!({"profile": "@mcp_ann"})).await;
    assert_eq!(profile["id"], thesis["profile"]["id"]);
    let events = call(&client, "list_events", json!({"types": "thesis.created", "token": "MCPONE"})).await;
    assert_eq!((&events["events"][0]["id"], &events["events"][0]["data"]), (&event["id"], &event["data"]));
    let found = eventually("the search finds it", SOON, async || {
        let params = json!({"name": "search", "arguments": {"q": "model reads", "token": "MCPONE"}});
        let mut answer = post(&client, "tools/call", params).await.ok(200);
        let found = answer["result"]["structuredContent"].take();
        (found["theses"].as_array()?.len() == 1).then_some(found)
    })
    .await;
    assert_eq!(found["theses"][0]["id"], thesis["id"]);
    assert!(text(&found, "more").contains("get_thesis"));
}

async fn a_page_says_how_to_get_the_next(service: &Service) {
    let client = service.test_client().await;
    let mut made = Vec::new();
    for number in 0..3 {
        let (thesis, _) = client.thesis("mcp_bob", "MCPTWO", &format!("{number} {}", "long ".repeat(100))).await;
        made.push(text(&thesis, "id").to_owned());
    }
    let first = call(&client, "list_theses", json!({"token": "MCPTWO", "limit": 2})).await;
    assert_eq!(text(&first["theses"][0], "text").chars().count(), 401);
    assert!(text(&first, "more").contains("next_cursor"));
    let events = call(&client, "list_events", json!({"types": "thesis.created", "token": "MCPTWO"})).await;
    assert_eq!(text(&events["events"][0]["data"], "text").chars().count(), 401);
    let next = json!({"token": "MCPTWO", "limit": 2, "cursor": first["next_cursor"]});
    let second = call(&client, "list_theses", next).await;
    assert_eq!((&second["next_cursor"], second.get("more")), (&Value::Null, None));
    let pages = [&first, &second].map(|page| page["theses"].as_array().unwrap());
    assert_eq!(pages.map(Vec::len), [2, 1]);
    let mut listed: Vec<&str> = pages.into_iter().flatten().map(|thesis| text(thesis, "id")).collect();
    listed.sort_unstable();
    made.sort_unstable();
    assert_eq!(listed, made);
}

async fn a_verdict_comes_with_its_receipt(service: &Service) {
    let client = service.test_client().await;
    let thesis = sandbox_thesis(&client).await;
    let (handle, created_at) = (&thesis["profile"]["handle"], &thesis["created_at"]);
    let claim = json!({"handle": handle, "token": thesis["token"]["id"], "created_after": created_at,
        "created_before": created_at, "receipt": true});
    let verdict = eventually("the log is signed", SOON, async || {
        let params = json!({"name": "verify_thesis", "arguments": claim});
        let mut answer = post(&client, "tools/call", params).await.ok(200);
        (answer["result"]["isError"] == false).then(|| answer["result"]["structuredContent"].take())
    })
    .await;
    assert_eq!((&verdict["verified"], text(&verdict, "reason")), (&json!(true), "VERIFIED"));
    assert_eq!((&verdict["thesis_id"], verdict.get("statement")), (&thesis["id"], None));
    assert_is_of(&proven(service, &verdict["receipt"]).await, &thesis);
    // Test theses of a project have no receipt.
    client.thesis("mcp_cid", "MCPTHREE", "mine").await;
    let own = json!({"handle": "mcp_cid", "token": "MCPTHREE", "created_after": created_at, "receipt": true});
    assert_eq!(refusal(&client, "verify_thesis", own).await["code"], "RECEIPT_UNAVAILABLE");
}

async fn rights_and_limits_are_those_of_the_key(service: &Service) {
    let client = service.project().await.key(Environment::Test, &["theses:read"]).await.client.at_one_edge();
    let used = async || call(&client, "get_usage", json!({})).await["month"]["used"].as_i64().unwrap();
    let before = used().await;
    call(&client, "list_theses", json!({})).await;
    assert_eq!(refusal(&client, "get_token", json!({"token": "RUN"})).await["code"], "INSUFFICIENT_SCOPE");
    let wrong = refusal(&client, "list_theses", json!({"limit": 0, "sort": "up", "tokn": "RUN"})).await;
    let params = wrong["details"]["errors"].as_array().unwrap().iter().map(|error| text(error, "param"));
    assert_eq!(
        (text(&wrong, "code"), params.collect::<Vec<_>>()),
        ("VALIDATION_FAILED", vec!["sort", "limit", "tokn"])
    );
    let over_rest = client.get("/v1/theses?limit=0&sort=up&tokn=RUN").await.error(422, "VALIDATION_FAILED");
    assert_eq!((&wrong["details"], &wrong["message"]), (&over_rest["details"], &over_rest["message"]));
    // The list of theses and this call count. A call that is refused before its operation does not.
    assert_eq!(used().await - before, 2);

    let small = service.project_on("few").await.test().await.at_one_edge();
    let mut codes = Vec::new();
    for _ in 0..5 {
        let answer = post(&small, "tools/call", json!({"name": "list_theses"})).await.ok(200);
        codes.push(answer["result"]["content"][0]["text"].as_str().unwrap().contains("QUOTA_EXCEEDED"));
    }
    assert_eq!(codes, [false, false, false, false, true]);

    let unknown = client.with_key(Some("svc_test_Unknown0123456789ABCDEFGHIJKLMNOPqrstuv"));
    post(&unknown, "tools/call", json!({"name": "get_usage"})).await.error(401, "INVALID_API_KEY");
    let nobody = service.anonymous();
    post(&nobody, "tools/list", json!({})).await.error(401, "MISSING_API_KEY");
}
