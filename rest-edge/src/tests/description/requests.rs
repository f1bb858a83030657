//! The description and the routes declare the same requests.

use std::{collections::BTreeSet, sync::Arc};

use http::Request;
use serde_json::{Value, json};

use super::{document, resolved, shape};
use crate::{
    tests::fake::{FakeCore, ask, simply},
    v1::routes,
};

/// `HEAD` and `OPTIONS` work everywhere and are described once for all operations.
const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

fn operations() -> Vec<(String, &'static str, Value)> {
    let document = document();
    let paths = document["paths"].as_object().unwrap();
    let each = |path: &String, item: &Value| {
        METHODS
            .into_iter()
            .filter_map(|method| Some((path.clone(), method, item.get(method)?.clone())))
            .collect::<Vec<_>>()
    };
    // Other tests open WebSockets.
    paths.iter().filter(|(path, _)| *path != "/v1/stream").flat_map(|(path, item)| each(path, item)).collect()
}

fn target(path: &str) -> String {
    let path = path.replace("{id}", "id_1").replace("{ref}", "ref_1").replace("{dataset}", "sandbox");
    let path = path.replace("{date}", "2026-01-31").replace("{file}", "theses.parquet");
    path.replace("{tile}", "0/000").replace("{*tile}", "0/000")
}

fn sample(document: &Value, schema: &Value) -> Value {
    let schema = resolved(document, schema);
    if let Some(values) = schema["enum"].as_array() {
        return values[0].clone();
    }
    if let Some(values) = schema["examples"].as_array() {
        return values[0].clone();
    }
    let kind = &schema["type"];
    match kind.as_str().or_else(|| kind[0].as_str()) {
        Some("integer" | "number") => json!(7),
        Some("boolean") => json!(true),
        Some("array") => json!([sample(document, &schema["items"])]),
        Some("object") if schema["additionalProperties"].is_object() => {
            json!({"x-name": sample(document, &schema["additionalProperties"])})
        }
        Some("object") => json!({"token": ["$RUN"]}),
        _ if schema["format"] == "date-time" => json!("2026-01-31T12:00:00Z"),
        _ => json!("x"),
    }
}

fn in_query(value: &Value) -> String {
    match value {
        Value::Array(values) => values.iter().map(in_query).collect::<Vec<_>>().join(","),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn body_sample(document: &Value, operation: &Value) -> Value {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    let schema = resolved(document, schema);
    let fields = schema["properties"].as_object();
    fields
        .into_iter()
        .flatten()
        .map(|(name, schema)| (name.clone(), sample(document, schema)))
        .collect::<serde_json::Map<_, _>>()
        .into()
}

/// Sends a request. Returns the status and the message that core received.
async fn message(method: &str, target: &str, header: Option<&str>, body: &Value) -> (u16, Vec<u8>) {
    let core = FakeCore::plain();
    let text = if body.as_object().is_none_or(serde_json::Map::is_empty) { String::new() } else { body.to_string() };
    let mut request = Request::builder().method(method.to_uppercase().as_str()).uri(target);
    request = request.header("content-type", "application/json");
    if let Some(name) = header {
        request = request.header(name, "x");
    }
    let (status, ..) = ask(&core, request.body(&*text.leak()).unwrap()).await;
    let seen = core.seen.lock();
    let last = seen.iter().rfind(|seen| !seen.is_housekeeping());
    (status.as_u16(), last.map(|seen| seen.message.to_vec()).unwrap_or_default())
}

#[tokio::test]
async fn exactly_the_described_methods_answer() {
    let document = document();
    let served: BTreeSet<_> = routes().iter().map(|route| route.path.replace("{*", "{")).collect();
    let described: BTreeSet<_> = document["paths"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(served, described);
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in METHODS {
            let (status, headers, _) = simply(&FakeCore::plain(), &method.to_uppercase(), &target(path)).await;
            let described = item.get(method).is_some();
            assert_eq!(status.as_u16() != 405, described, "{method} {path}");
            if !described {
                let mut allowed: BTreeSet<_> =
                    headers["allow"].to_str().unwrap().split(", ").map(str::to_lowercase).collect();
                assert!(allowed.remove("options"));
                assert_eq!(allowed.remove("head"), item.get("get").is_some());
                assert_eq!(allowed, item.as_object().unwrap().keys().cloned().collect());
            }
        }
    }
}

#[tokio::test]
async fn a_full_request_succeeds_as_described() {
    let document = document();
    for (path, method, operation) in operations() {
        let core = FakeCore::plain();
        let text = body_sample(&document, &operation).to_string();
        let request = Request::builder().method(method.to_uppercase().as_str()).uri(target(&path));
        let request = request.header("content-type", "application/json").body(&*text.leak()).unwrap();
        let (status, _, body) = ask(&core, request).await;
        let answer = &operation["responses"][status.as_str()];
        assert!(status.is_success() && answer.is_object(), "{method} {path}: {status} {body}");

        let schema = &answer["content"]["application/json"]["schema"];
        if schema.is_null() {
            continue;
        }
        let (properties, required) = shape(&document, schema);
        let keys: BTreeSet<_> = body.as_object().unwrap().keys().cloned().collect();
        assert!(required.is_subset(&keys) && keys.is_subset(&properties), "{method} {path}: {keys:?} {schema}");
    }
}

#[tokio::test]
async fn every_described_parameter_is_read_and_no_other() {
    let document = document();
    for (path, method, operation) in operations() {
        let target = target(&path);
        let (_, bare) = message(method, &target, None, &Value::Null).await;
        let (status, sent) = message(method, &format!("{target}?zzz=1&zzz=2"), None, &Value::Null).await;
        assert_eq!((status, sent), (422, bare.clone()), "{path}");
        assert!(operation["responses"]["422"].is_object(), "{path}");
        for parameter in operation["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            let value = in_query(&sample(&document, &parameter["schema"]));
            let (status, sent) = match parameter["in"].as_str().unwrap() {
                "query" => message(method, &format!("{target}?{name}={value}"), None, &Value::Null).await,
                "header" if name == "Last-Event-ID" => message(method, &target, Some(name), &Value::Null).await,
                _ => continue,
            };
            assert!(status < 300 && sent != bare, "{method} {path} does not read {name}: {status}");
        }
        for (name, value) in body_sample(&document, &operation).as_object().unwrap() {
            let (status, sent) = message(method, &target, None, &json!({name: value})).await;
            assert!(status < 300 && sent != bare, "{method} {path} does not read {name}: {status}");
        }
        if method == "post" || method == "patch" {
            assert_eq!(message(method, &target, None, &json!({"zzz": 1})).await.0, 422, "{path}");
        }
    }
}

#[tokio::test]
async fn routes_name_the_rpc_that_they_call() {
    for route in routes().into_iter().filter(|route| route.path != "/v1/stream") {
        let core: Arc<FakeCore> = FakeCore::plain();
        let (status, ..) = simply(&core, route.method.as_str(), &target(route.path)).await;
        assert!(status.is_success(), "{}", route.path);
        let seen = core.seen.lock();
        let called: Vec<_> =
            seen.iter().filter(|seen| !seen.is_housekeeping()).map(|seen| seen.operation.clone()).collect();
        let rpc = route.operation.or(route.open_rpc);
        assert_eq!(called, rpc.into_iter().collect::<Vec<_>>(), "{}", route.path);
    }
}
