//! One request through all roles: found in their logs by its trace id, and in a collector as one tree of spans.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{Router, body::Bytes, http::HeaderMap, routing::post};
use opentelemetry_proto::tonic::{
    collector::trace::v1::ExportTraceServiceRequest, common::v1::any_value, trace::v1::Span,
};
use prost::Message as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::harness::{Client, Process, Receiver, SERVICE_TOKEN, SOON, Service, Setup, TEST_KEY, eventually, text};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CALLER: &str = "00f067aa0ba902b7";
const SECRET_TEXT: &str = "a text that no log may have";

/// A collector that keeps all spans.
struct Collector {
    url: String,
    spans: Arc<Mutex<Vec<(String, Span)>>>,
}

impl Collector {
    async fn start() -> Self {
        let spans: Arc<Mutex<Vec<(String, Span)>>> = Arc::default();
        let kept = Arc::clone(&spans);
        let take = post(async move |headers: HeaderMap, body: Bytes| {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            for of in ExportTraceServiceRequest::decode(body).unwrap().resource_spans {
                let attributes = of.resource.unwrap().attributes;
                let attribute = |name: &str| {
                    let found = attributes.iter().find(|attribute| attribute.key == name);
                    match found.and_then(|found| found.value.clone()?.value) {
                        Some(any_value::Value::StringValue(text)) => text,
                        other => panic!("{name}: {other:?}"),
                    }
                };
                assert_eq!(attribute("service.name"), "trade-thesis");
                assert!(!attribute("service.version").is_empty());
                let instance = attribute("service.instance.id");
                let role = instance.split('-').next().unwrap();
                let new = of.scope_spans.into_iter().flat_map(|scope| scope.spans);
                kept.lock().unwrap().extend(new.map(|span| (role.to_owned(), span)));
            }
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, Router::new().route("/v1/traces", take)).into_future());
        Self { url, spans }
    }

    /// The spans of a trace so far.
    fn of(&self, trace: &str) -> Vec<(String, Span)> {
        let trace = hex::decode(trace).unwrap();
        self.spans.lock().unwrap().iter().filter(|(_, span)| span.trace_id == trace).cloned().collect()
    }
}

/// A core, an edge and a worker, with settings of their own.
fn roles(dir: &std::path::Path, more: &[(&str, &str)]) -> [Process; 3] {
    let set = |setup: Setup| more.iter().fold(setup, |setup, (name, value)| setup.set(name, value));
    let setup = || set(Setup::new(dir).set("SVC_SERVICE_TOKEN", SERVICE_TOKEN).set("SVC_LOG", "info,access=debug"));
    let core = setup().set("SVC_BOOTSTRAP_TEST_KEY", TEST_KEY).role("core").start();
    let role = |role: &str| setup().set("SVC_CORE_URL", &core.address("grpc")).role(role).start();
    let (edge, worker) = (role("edge"), role("worker"));
    [core, edge, worker]
}

/// The lines of a log with this trace id.
fn lines(process: &Process, trace: &str) -> Vec<Value> {
    let lines = process.log();
    let lines = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|line| line["trace_id"] == trace).collect()
}

/// Posts a thesis in a trace; gives its request id.
async fn post_in(client: &Client, trace: &str, flags: &str) -> String {
    let body = json!({"handle": "writer", "token": "TRACED", "text": SECRET_TEXT});
    let request = client.request(Method::POST, "/v1/test/theses").json(&body);
    let answer = client.send(request.header("traceparent", format!("00-{trace}-{CALLER}-{flags}"))).await;
    answer.ok(201);
    answer.header("x-service-request-id").to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_is_found_in_all_roles() {
    let dir = tempfile::tempdir().unwrap();
    let collector = Collector::start().await;
    let processes = roles(dir.path(), &[("SVC_OTLP_URL", &collector.url), ("SVC_TRACE_SAMPLE", "0")]);
    let [core, edge, worker] = &processes;
    let client = Client::new(&edge.address("http"), Some(TEST_KEY));
    let receiver = Receiver::start().await;
    let webhook = client.webhook(&format!("{}?secret_of_the_url=1", receiver.url), &["thesis.created"]).await;
    let request_id = post_in(&client, TRACE, "01").await;
    client.get("/v1/theses?limit=1&token=QUERIED").await;
    // Without the flag the ids are in the logs, and there are no spans.
    let quiet = TRACE.replace('4', "5");
    post_in(&client, &quiet, "00").await;

    for trace in [TRACE, &quiet] {
        let [at_edge, at_core] = [edge, core].map(|process| lines(process, trace));
        assert_eq!(at_edge.len(), 1, "{at_edge:?}");
        assert_eq!(at_core.len(), 1, "{at_core:?}");
        assert_eq!(at_edge[0]["request_id"], at_core[0]["request_id"]);
        assert_eq!((&at_edge[0]["method"], &at_edge[0]["route"]), (&json!("POST"), &json!("/v1/test/theses")));
        assert_eq!((&at_edge[0]["status"], &at_edge[0]["target"]), (&json!(201), &json!("access")));
        assert_eq!(at_core[0]["route"], "TestDataService/CreateTestThesis");
        assert!(text(&at_core[0], "key_id").starts_with("key_"));
    }
    assert_eq!(lines(edge, TRACE)[0]["request_id"], *request_id);
    let attempt = eventually("an attempt", SOON, async || lines(worker, TRACE).pop()).await;
    assert_eq!((&attempt["outcome"], &attempt["webhook"]), (&json!("delivered"), &webhook["id"]));

    // One tree: edge, core, store and the wait for the log below it, and the worker's attempt.
    let spans = eventually("a whole trace", SOON, async || {
        let spans = collector.of(TRACE);
        let roles: BTreeSet<_> = spans.iter().map(|(role, _)| role.clone()).collect();
        (roles.len() == 3).then_some(spans)
    })
    .await;
    let parents: BTreeMap<_, _> = spans.iter().map(|(_, span)| (&span.span_id, &span.parent_span_id)).collect();
    assert_eq!(parents.len(), spans.len(), "each has an id of its own");
    let roots: Vec<_> = spans.iter().filter(|(_, span)| !parents.contains_key(&span.parent_span_id)).collect();
    assert_eq!(roots.len(), 1, "{spans:?}");
    assert_eq!((&*roots[0].0, &*roots[0].1.name), ("edge", "POST /v1/test/theses"));
    assert_eq!(roots[0].1.parent_span_id, hex::decode(CALLER).unwrap());
    let named = |role: &str, name: &str| {
        let found = spans.iter().find(|(at, span)| at == role && span.name.starts_with(name));
        found.unwrap_or_else(|| panic!("no {name} of {role} in {spans:?}")).1.clone()
    };
    let operation = named("core", "TestDataService/CreateTestThesis");
    assert_eq!(operation.parent_span_id, roots[0].1.span_id);
    assert_eq!(named("core", "append").parent_span_id, operation.span_id);
    assert_eq!(named("worker", "POST").parent_span_id, operation.span_id);
    assert!(spans.iter().any(|(_, span)| span.attributes.iter().any(|at| at.key == "db.collection.name")), "{spans:?}");
    assert!(collector.of(&quiet).is_empty());

    // No secret is in a log or in a span.
    let mut told = format!("{:?}", collector.spans.lock().unwrap());
    for process in &processes {
        told += &process.log();
    }
    for secret in [TEST_KEY, SERVICE_TOKEN, SECRET_TEXT, text(&webhook, "secret"), "QUERIED", "secret_of_the_url"] {
        assert!(!told.contains(secret), "{secret}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_force_a_bounded_number_of_traces() {
    let collector = Collector::start().await;
    let mut service = Service::embedded(|setup| setup.set("SVC_OTLP_URL", &collector.url).set("SVC_TRACE_SAMPLE", "0"));
    let client = service.client(TEST_KEY);
    let began = tokio::time::Instant::now();
    let asked = futures::future::join_all((1..=300).map(async |number| {
        let trace = format!("{number:032x}");
        let request = client.request(Method::GET, "/v1/me");
        client.send(request.header("traceparent", format!("00-{trace}-{CALLER}-01"))).await.ok(200);
    }));
    asked.await;
    let seconds = began.elapsed().as_secs() + 2;
    // It sends its last spans at the end.
    service.processes[0].signal("TERM");
    service.processes[0].exit(SOON).await;
    let traces: BTreeSet<_> = collector.spans.lock().unwrap().iter().map(|(_, span)| span.trace_id.clone()).collect();
    let most = usize::try_from(20 * seconds).unwrap();
    assert!((20..=most).contains(&traces.len()), "{} in {seconds} s", traces.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_away_changes_nothing() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // It takes connections and never answers.
    let url = format!("http://{}", listener.local_addr().unwrap());
    let mut service = Service::embedded(|setup| setup.set("SVC_OTLP_URL", &url).set("SVC_TRACE_SAMPLE", "1"));
    let client = service.client(TEST_KEY);
    for _ in 0..50 {
        client.get("/v1/me").await.ok(200);
    }
    let began = tokio::time::Instant::now();
    service.processes[0].signal("TERM");
    assert_eq!(service.processes[0].exit(Duration::from_secs(10)).await.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[test]
fn settings_that_cannot_be_used_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (name, value) in [
        ("SVC_OTLP_URL", "collector:4318"),
        ("SVC_OTLP_URL", "http://collector:4318/v1/traces"),
        ("SVC_OTLP_URL", "grpc://collector"),
        ("SVC_TRACE_SAMPLE", "1.5"),
        ("SVC_TRACE_SAMPLE", "-0.1"),
        ("SVC_TRACE_SAMPLE", "NaN"),
        ("SVC_TRACE_SAMPLE", "often"),
    ] {
        let (code, _, told) = Setup::new(dir.path()).set(name, value).run();
        let flag = name.strip_prefix("SVC_").unwrap().to_lowercase().replace('_', "-");
        assert!(code != Some(0) && told.contains(&flag) && told.contains(value), "{name}={value}: {told}");
    }
}
