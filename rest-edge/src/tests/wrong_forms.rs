//! Every parameter and field of every route, in each wrong form that the edge judges. What it does not judge (ranges,
//! lengths, the content of texts) reaches core as it is.

use std::sync::Arc;

use http::{HeaderMap, Request, StatusCode};
use prost::Message as _;
use serde_json::{Value, json};
use thesis_proto::v1;
use tokio_util::sync::CancellationToken;

use super::fake::{FakeCore, ask_at, edge, simply};
use crate::{edge::Edge, input::Kind, route::Route, v1::routes};

const NOT_TIMES: &[&str] = &[
    "",
    "noon",
    "2026",
    "2026-02-30",
    "2026-01-31T25:00:00Z",
    "2026-01-31T12:00:00%2B99:00",
    "2026-01-31T12:00:00+02:00",
    "1767225600",
    "1969-12-31T23:59:59Z",
    "99999-01-01",
    "2026-01-31T12:00:00Z%00",
    "%0A2026-01-31",
];

const NOT_INTEGERS: &[&str] =
    &["", "abc", "1.5", "1e3", "0x1", "+5", "%2B5", "%205", "5%00", "--5", "-", "5,6", "%D9%A3", "null", "%E2%88%925"];

/// Values in a query that are refused, and the message's start.
fn wrong_values(kind: &Kind) -> (Vec<String>, &'static str) {
    let texts = |values: &[&str]| values.iter().map(|value| (*value).to_owned()).collect();
    match kind {
        Kind::Integer(..) => (texts(NOT_INTEGERS), "must be a whole number"),
        Kind::Time => (texts(NOT_TIMES), "must be an ISO 8601 date-time"),
        Kind::OneOf(values) => (near(values()), "must be one of: "),
        Kind::SomeOf(values) => {
            let mut wrong = near(values());
            wrong.extend([
                format!("{},", values()[0]),
                format!("{},,{0}", values()[0]),
                format!("{},%20{0}", values()[0]),
            ]);
            (wrong, "must be of: ")
        }
        Kind::Text(..) | Kind::Texts => (Vec::new(), ""),
        other => panic!("{other:?} is of bodies"),
    }
}

/// Texts near to known ones.
fn near(known: Vec<&str>) -> Vec<String> {
    let first = known[0];
    vec![
        String::new(),
        first.to_uppercase(),
        format!("%20{first}"),
        format!("{first}%00"),
        format!("{first};"),
        first[1..].to_owned(),
        "unspecified".to_owned(),
        "1".to_owned(),
    ]
}

/// Values of a body's field that are refused.
fn wrong_fields(kind: &Kind) -> Vec<Value> {
    let mut wrong = vec![json!(true), json!({"a": 1}), json!([1]), json!(1.5)];
    match kind {
        Kind::Text(..) => wrong.extend([json!(null), json!(1), json!(["a"])]),
        Kind::NullableText(_) => wrong.extend([json!(1), json!(["a"])]),
        Kind::Time => {
            wrong.extend([json!(null), json!(0), json!(""), json!("noon"), json!("2026-02-30"), json!("1e9")])
        }
        Kind::Integer(..) => wrong.extend([json!(null), json!("5"), json!(0.1), json!("")]),
        Kind::EventTypeList(..) => wrong.extend([json!("thesis.created"), json!([null]), json!(["Thesis.Created"])]),
        Kind::Filters => {
            wrong.extend([json!(null), json!({"token": "a"}), json!({"token": [1]}), json!({"chains": []})])
        }
        other => panic!("{other:?} is of queries"),
    }
    wrong
}

fn target(route: &Route) -> String {
    route.path.replace("{id}", "id_1").replace("{ref}", "ref_1")
}

/// An edge and its core.
struct Asked {
    core: Arc<FakeCore>,
    edge: Edge,
}

type Answer = (StatusCode, HeaderMap, Value);

impl Asked {
    fn new() -> Self {
        let core = FakeCore::plain();
        Self { edge: edge(&core, CancellationToken::new()), core }
    }

    async fn with_query(&self, route: &Route, raw: &str) -> Answer {
        let target = format!("{}?{raw}", target(route));
        ask_at(&self.edge, Request::builder().method(&route.method).uri(target).body("").unwrap()).await
    }

    async fn with_body(&self, route: &Route, body: &Value) -> Answer {
        let request = Request::builder().method(&route.method).uri(target(route));
        let text: &'static str = body.to_string().leak();
        ask_at(&self.edge, request.header("content-type", "application/json").body(text).unwrap()).await
    }
}

/// Asserts that core was asked to refuse this operation for one field, and that the envelope says so.
fn refused(core: &FakeCore, route: &Route, answer: Answer, param: &str, why: &str) {
    let (status, headers, body) = answer;
    let error = &body["error"];
    let context = format!("{} {} {param}: {body}", route.method, route.path);
    assert_eq!((status.as_u16(), error["code"].as_str()), (422, Some("VALIDATION_FAILED")), "{context}");
    assert_eq!(error["type"], "validation", "{context}");
    assert_eq!(error["request_id"], headers["x-service-request-id"].to_str().unwrap());
    let listed = error["details"]["errors"].as_array().unwrap();
    assert!(listed.len() == 1 && listed[0]["param"] == error["param"], "{context}");
    assert!(error["param"].as_str().unwrap().starts_with(param), "{context}");
    assert!(listed[0]["message"].as_str().unwrap().starts_with(why), "{context}");
    let seen = std::mem::take(&mut *core.seen.lock());
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].operation, "GateService/Refuse");
    let told = v1::RefuseRequest::decode(seen[0].message.clone()).unwrap();
    assert_eq!(Some(told.operation.as_str()), route.operation);
}

#[tokio::test]
async fn of_query_parameters() {
    let asked = Asked::new();
    for route in routes() {
        for param in route.query {
            let (wrong, why) = wrong_values(&param.kind);
            for value in wrong {
                let answer = asked.with_query(&route, &format!("{}={value}", param.name)).await;
                refused(&asked.core, &route, answer, param.name, why);
            }
            let right = right_value(&param.kind);
            for raw in [format!("{0}={right}&{0}={right}", param.name), format!("{0}={right}&x&{0}", param.name)] {
                let answer = asked.with_query(&route, &raw).await;
                refused(&asked.core, &route, answer, param.name, "must be given once");
            }
            for broken in ["%", "%f", "%zz", "%ff", "a%C3"] {
                let (status, _, body) = asked.with_query(&route, &format!("{}={broken}", param.name)).await;
                assert_eq!((status.as_u16(), &body["error"]["code"]), (400, &json!("INVALID_REQUEST")), "{broken}");
                assert_eq!(asked.core.seen.lock().pop().unwrap().operation, "GateService/Refuse");
            }
        }
    }
}

fn right_value(kind: &Kind) -> String {
    match kind {
        Kind::Integer(..) => "5".to_owned(),
        Kind::Time => "2026-01-31".to_owned(),
        Kind::OneOf(values) | Kind::SomeOf(values) => values()[0].to_owned(),
        _ => "x".to_owned(),
    }
}

#[tokio::test]
async fn of_body_fields() {
    let asked = Asked::new();
    for route in routes() {
        let Some(fields) = route.body else {
            continue;
        };
        for field in fields {
            for value in wrong_fields(&field.kind) {
                let answer = asked.with_body(&route, &json!({field.name: value})).await;
                refused(&asked.core, &route, answer, field.name, "");
            }
        }
        for body in [json!([]), json!("a"), json!(null), json!(7)] {
            refused(&asked.core, &route, asked.with_body(&route, &body).await, "body", "must be a JSON object");
        }
        refused(&asked.core, &route, asked.with_body(&route, &json!({"zzz": null})).await, "zzz", "is not a field");
    }
}

#[tokio::test]
async fn what_core_judges_reaches_it() {
    let long = "x".repeat(3000);
    for (route, raw) in [
        ("/v1/theses", format!("profile={long}&since=yesterday&chain=%00&limit=0&cursor=")),
        ("/v1/search", format!("q={long}&limit=51")),
        ("/v1/search", "created_after=2026-02-01&created_before=2026-01-01".to_owned()),
        ("/v1/profiles", "id=&handle=a&upstream_user_id=b".to_owned()),
        ("/v1/tokens/%07/activity", "recent=99999999999999999999".to_owned()),
        ("/v1/events", "token=,&handle=".to_owned()),
    ] {
        let core = FakeCore::plain();
        let (status, _, body) = simply(&core, "GET", &format!("{route}?{raw}")).await;
        assert_eq!(status, 200, "{route}?{raw}: {body}");
        assert_ne!(core.seen.lock()[0].operation, "GateService/Refuse");
    }
}
