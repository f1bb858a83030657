//! Every parameter and field of every operation in each of its wrong forms, and the envelope that it gets.

use std::collections::BTreeSet;

use reqwest::{Method, header::HeaderValue};
use serde_json::{Value, json};

use crate::harness::{Answer, Client, Service, iso, now_ms, text};

mod body;
mod forms;
mod table;

use self::{
    body::{in_body, name_twice},
    forms::{Expected, Wrong, in_path, in_query},
    table::{Form, Row, TABLE},
};

/// The rule that a name breaks which is not near any known one.
const UNKNOWN: &str = "unknown; leave it out";

on_both_stores![
    the_table_names_every_parameter_of_the_description,
    query_parameters,
    unknown_parameters,
    path_parameters,
    headers,
    body_fields,
    all_bad_fields_are_told_at_once,
];

async fn the_table_names_every_parameter_of_the_description(service: &Service) {
    let document = service.anonymous().get("/v1/openapi.json").await.ok(200);
    let mut described = BTreeSet::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let operation_name = format!("{} {path}", method.to_uppercase());
            for parameter in operation["parameters"].as_array().unwrap() {
                let (place, name) = (text(parameter, "in"), text(parameter, "name"));
                described.insert((operation_name.clone(), place.to_owned(), name.to_owned()));
            }
            for scheme in operation["security"].as_array().into_iter().flatten() {
                for name in scheme.as_object().unwrap().keys() {
                    let scheme = &document["components"]["securitySchemes"][name];
                    if scheme["type"] == "apiKey" {
                        let (place, name) = (text(scheme, "in"), text(scheme, "name"));
                        described.insert((operation_name.clone(), place.to_owned(), name.to_owned()));
                    }
                }
            }
            let body = operation["requestBody"]["content"]["application/json"]["schema"]["$ref"].as_str();
            let fields = body.map(|name| document.pointer(&name[1..]).unwrap()["properties"].as_object().unwrap());
            for name in fields.into_iter().flatten().map(|(name, _)| name) {
                described.insert((operation_name.clone(), "body".to_owned(), name.clone()));
            }
        }
    }
    let each = |(operation, rows): &(&str, &[Row])| {
        let row = |row: &Row| ((*operation).to_owned(), row.place.to_owned(), row.name.to_owned());
        rows.iter().map(row).collect::<Vec<_>>()
    };
    let tested: BTreeSet<_> = TABLE.iter().flat_map(each).collect();
    assert_eq!(tested, described);
}

/// A client whose requests no limit stops.
async fn unlimited(service: &Service) -> Client {
    service.project_on("huge").await.test().await
}

/// The rows of a place, each with its method and path.
fn rows_in(place: &'static str) -> impl Iterator<Item = (Method, &'static str, &'static Row)> {
    TABLE.iter().flat_map(move |(operation, rows)| {
        let (method, path) = operation.split_once(' ').unwrap();
        let of_place = rows.iter().filter(move |row| row.place == place);
        of_place.map(move |row| (method.parse().unwrap(), path, row))
    })
}

/// Compares a failure with the table's.
fn check(answer: &Answer, name: &str, expected: &Expected, context: &str) {
    let (status, code, param, details) = match expected {
        Expected::Field(message) => {
            let errors = json!({"errors": [{"param": name, "message": message}]});
            (422, "VALIDATION_FAILED", Some(name), Some(errors))
        }
        Expected::Refused(reason) => (422, "WEBHOOK_URL_FORBIDDEN", Some(name), Some(json!({"reason": reason}))),
        Expected::Cursor => (400, "INVALID_CURSOR", Some(name), None),
        Expected::Whole(status, code) => (*status, *code, None, None),
    };
    assert_eq!(answer.status, status, "{context}: {}", answer.text);
    let error = answer.error(status, code);
    assert_eq!((error["param"].as_str(), error.get("details")), (param, details.as_ref()), "{context}");
    if let Expected::Field(message) = expected {
        assert_eq!(text(&error, "message"), format!("{name}: {message}"), "{context}");
    }
}

async fn query_parameters(service: &Service) {
    let client = unlimited(service).await;
    let webhook = client.webhook("http://127.0.0.1:19997/", &["thesis.created"]).await;
    for (method, path, row) in rows_in("query") {
        // The other parameter that must be there.
        let base = if path == "/v1/search" && row.name != "q" { "q=moon&" } else { "" };
        let path = path.replace("{id}", text(&webhook, "id")).replace("{ref}", "RUN");
        let ask = async |raw: &str| {
            let target = format!("{path}?{base}{raw}");
            (client.send(client.request(method.clone(), &target)).await, target)
        };
        let (wrong, right) = in_query(&row.form);
        for Wrong { value, expected } in &wrong {
            let (answer, target) = ask(&format!("{}={value}", row.name)).await;
            check(&answer, row.name, expected, &target);
        }
        for broken in ["%", "%f", "%zz", "%ff", "a%C3"] {
            let (answer, target) = ask(&format!("{}={broken}", row.name)).await;
            check(&answer, row.name, &Expected::Whole(400, "INVALID_REQUEST"), &target);
        }
        for value in &right {
            // This only checks that the shape is accepted; a stream would not end.
            if path != "/v1/events/stream" {
                let (answer, target) = ask(&format!("{}={value}", row.name)).await;
                assert!(answer.status != 422, "{target}: {}", answer.text);
            }
            if matches!(row.form, Form::Searches) {
                continue;
            }
            let (answer, target) = ask(&format!("{0}={value}&{0}={value}", row.name)).await;
            let is_list = matches!(row.form, Form::SomeOf(_) | Form::References(_));
            let rule =
                if is_list { "must be given once, with commas between its values" } else { "must be given once" };
            check(&answer, row.name, &Expected::Field(rule.to_owned()), &target);
        }
    }
}

async fn unknown_parameters(service: &Service) {
    let client = unlimited(service).await;
    let document = client.get("/v1/openapi.json").await.ok(200);
    let unknown = Expected::Field(UNKNOWN.to_owned());
    for (path, item) in document["paths"].as_object().unwrap() {
        // Of an address of its own: twenty failures are too many.
        let stranger = service.anonymous();
        for method in item.as_object().unwrap().keys() {
            let path = path.replace("{id}", "nobody").replace("{ref}", "RUN");
            let method: Method = method.to_uppercase().parse().unwrap();
            let ask = async |client: &Client, query: &str| {
                let request = client.request(method.clone(), &format!("{path}?{query}"));
                let request = if method == Method::POST { request.json(&json!({})) } else { request };
                client.send(request).await
            };
            let answer = ask(&client, "zzz=1&zzz=2").await;
            if path.ends_with("/wallets") || path.ends_with("/semantic") {
                answer.error(404, "FEATURE_DISABLED");
                continue;
            }
            let error = answer.error(422, "VALIDATION_FAILED");
            let listed = error["details"]["errors"].as_array().unwrap();
            let reported = listed.iter().filter(|error| error["param"] == "zzz");
            let reported: Vec<&str> = reported.map(|error| text(error, "message")).collect();
            assert_eq!(reported, [UNKNOWN], "{method} {path}");
            // A caller without access is not told the error.
            let anonymous = ask(&stranger, "zzz=1").await;
            match path.as_str() {
                "/v1" | "/v1/openapi.json" | "/v1/asyncapi.json" | "/v1/status" => {
                    check(&anonymous, "zzz", &unknown, &path);
                }
                open if open.starts_with("/v1/log/") => check(&anonymous, "zzz", &unknown, &path),
                _ => drop(anonymous.error(401, "MISSING_API_KEY")),
            }
        }
    }
    for (_, path, row) in rows_in("query") {
        let path = path.replace("{id}", "nobody").replace("{ref}", "RUN");
        let misspelt = format!("{}s", row.name);
        let base = if path == "/v1/search" && row.name != "q" { "q=moon&" } else { "" };
        // One letter is too short for a guess.
        let rule = if row.name == "q" { UNKNOWN.to_owned() } else { format!("unknown; did you mean `{}`?", row.name) };
        let error = client.get(&format!("{path}?{base}{misspelt}=1")).await.error(422, "VALIDATION_FAILED");
        let listed = error["details"]["errors"].as_array().unwrap();
        assert!(listed.contains(&json!({"param": misspelt, "message": rule})), "{path}: {error}");
    }
    // A path's unknown parameters are named beside the wrong ones.
    client.get("/v1/theses?x=1&limit=abc&chain=").await.invalid(&["chain", "limit", "x"]);
    let body = json!({"handle": "writer", "token": "a b", "text": 7, "y": 1});
    let answer = client.post("/v1/test/theses?x=1", &body).await;
    answer.invalid(&["token", "text", "x", "y"]);
}

async fn path_parameters(service: &Service) {
    let client = unlimited(service).await;
    for (method, path, row) in rows_in("path") {
        let place = format!("{{{}}}", row.name);
        let (wrong, right) = in_path(&row.form);
        let ask = async |target: &str| {
            let mut request = client.request(method.clone(), target);
            if path == "/v1/webhooks/{id}/replay" {
                request = request.json(&right_body(path, ""));
            }
            client.send(request).await
        };
        for Wrong { value, expected } in &wrong {
            let target = path.replace(&place, value);
            check(&ask(&target).await, row.name, expected, &target);
        }
        for value in right {
            let target = path.replace(&place, &value);
            let answer = ask(&target).await;
            assert!([200, 404].contains(&answer.status), "{target}: {}", answer.text);
        }
    }
}

async fn headers(service: &Service) {
    let client = unlimited(service).await;
    for (method, path, row) in rows_in("header") {
        let path = path.replace("{id}", "unknown").replace("{ref}", "RUN");
        let long = |length: usize| HeaderValue::from_str(&"x".repeat(length)).unwrap();
        let whole = |code| Expected::Whole(400, code);
        let unreadable = ["é".as_bytes(), b"\xff", b"a\tb"].map(|bytes| vec![HeaderValue::from_bytes(bytes).unwrap()]);
        let mut wrong: Vec<(Vec<HeaderValue>, &str, Expected)> = Vec::new();
        match row.form {
            Form::IdempotencyKey => {
                wrong.extend(unreadable.map(|values| (values, row.name, whole("INVALID_REQUEST"))));
                for values in [vec![long(0)], vec![long(256)], vec![long(3), long(3)]] {
                    wrong.push((values, row.name, whole("INVALID_REQUEST")));
                }
            }
            Form::LastEventId => {
                let [wide, invalid, _] = unreadable;
                for values in [wide, invalid, vec![long(3), long(3)]] {
                    wrong.push((values, row.name, whole("INVALID_REQUEST")));
                }
                wrong.push((vec![long(9)], row.name, Expected::Cursor));
                wrong.push((
                    vec![long(513)],
                    "from_cursor",
                    Expected::Field("must have 1 to 512 characters".to_owned()),
                ));
            }
            // Every text is allowed: it names the resource's state or not; here there is no resource.
            Form::Tags => {
                let request = client.request(method.clone(), &path.replace("unknown", "nobody"));
                let answer = client.send(request.header(row.name, "\"")).await;
                assert!([200, 404, 422].contains(&answer.status), "{path}: {}", answer.text);
                continue;
            }
            _ => panic!("{} is in no header", row.name),
        }
        for (values, named, expected) in wrong {
            let mut request = client.request(method.clone(), &path).header("content-type", "application/json");
            for value in &values {
                request = request.header(row.name, value);
            }
            let answer = client.send(request.body("{}")).await;
            check(&answer, named, &expected, &format!("{path} {}: {values:?}", row.name));
        }
    }
}

/// A right body, made for a wrong form of one of its fields.
fn right_body(path: &str, field: &str) -> Value {
    let author = if field == "profile_id" { "profile_id" } else { "handle" };
    match path {
        "/v1/verify/thesis" => json!({author: "sbx_1", "token": "RUN", "created_after": iso(now_ms() - 60_000)}),
        "/v1/test/theses" => json!({"handle": "writer", "token": "FORMS", "text": "x"}),
        "/v1/webhooks/{id}" | "/v1/alerts/{id}" => json!({}),
        "/v1/alerts" => json!({"name": "x", "token": "RUN", "metric": "change_pct", "above": 5}),
        "/v1/webhooks/{id}/replay" => json!({"since": iso(now_ms() - 60_000)}),
        "/v1/webhooks" => json!({"url": "http://127.0.0.1:19997/", "events": ["thesis.created"]}),
        "/v1/search/semantic" => json!({"query": "moon"}),
        _ => panic!("{path} takes no body"),
    }
}

async fn body_fields(service: &Service) {
    let client = unlimited(service).await;
    let webhook = client.webhook("http://127.0.0.1:19997/", &["thesis.created"]).await;
    let alert = client.post("/v1/alerts", &right_body("/v1/alerts", "")).await.ok(201);
    for (method, path, row) in rows_in("body") {
        let good = right_body(path, row.name);
        // Where absent means unchanged, null means something else.
        let is_refused_null = |value: &Value| value.is_null() && method == Method::PATCH && row.name != "description";
        let not_null = || Expected::Field("must not be null".to_owned());
        let of_alert = path.starts_with("/v1/alerts");
        let target = path.replace("{id}", text(if of_alert { &alert } else { &webhook }, "id"));
        let send = async |body: String| {
            let request = client.request(method.clone(), &target).header("content-type", "application/json");
            client.send(request.body(body)).await
        };
        let (wrong, right) = in_body(&row.form);
        for (value, within, expected) in wrong {
            let expected = if is_refused_null(&value) { not_null() } else { expected };
            let mut body = good.clone();
            body[row.name] = value;
            let answer = send(body.to_string()).await;
            check(&answer, &format!("{}{within}", row.name), &expected, &format!("{path} {body}"));
        }
        for value in right {
            let mut body = good.clone();
            body[row.name] = value.clone();
            let answer = send(body.to_string()).await;
            if is_refused_null(&value) {
                check(&answer, row.name, &not_null(), path);
                continue;
            }
            assert!(answer.status < 300 || answer.status == 404, "{path} {body}: {}", answer.text);
            if answer.status == 404 {
                continue;
            }
            let answer = send(name_twice(&body, row.name)).await;
            check(&answer, row.name, &Expected::Field("must be given once".to_owned()), path);
        }
        let mut body = good.clone();
        body["unknown"] = Value::Null;
        if !matches!(row.form, Form::Disabled) {
            check(&send(body.to_string()).await, "unknown", &Expected::Field(UNKNOWN.to_owned()), path);
            let mut near = right_body(path, row.name);
            let misspelt = format!("{}s", row.name);
            near[&misspelt] = near.as_object_mut().unwrap().remove(row.name).unwrap_or_default();
            let answer = send(near.to_string()).await;
            let error = answer.error(422, "VALIDATION_FAILED");
            let listed = error["details"]["errors"].as_array().unwrap();
            let rule = format!("unknown; did you mean `{}`?", row.name);
            assert!(listed.contains(&json!({"param": misspelt, "message": rule})), "{path}: {error}");
        }
    }
}

async fn all_bad_fields_are_told_at_once(service: &Service) {
    let client = unlimited(service).await.at_one_edge();
    // Parameters that the edge cannot read, and some that core refuses.
    let path = "/v1/theses?limit=abc&since=x&chain=&sort=up&created_after=noon&profile=a%00&handle=a&handle=b";
    client.get(path).await.invalid(&["profile", "handle", "chain", "created_after", "since", "sort", "limit"]);
    let path = "/v1/search?q=%22&types=users&token=&limit=0&limit=0";
    client.get(path).await.invalid(&["q", "types", "token", "limit"]);
    client.get("/v1/events?chain=&types=x&limit=101&cursor=").await.invalid(&["types", "chain", "limit", "cursor"]);
    client.get("/v1/events/stream?types=x&handle=@&from_cursor=").await.invalid(&["types", "handle", "from_cursor"]);
    client.get("/v1/webhooks?limit=0&status=x").await.invalid(&["limit", "status"]);
    client
        .get("/v1/webhooks/wh_1/deliveries?limit=x&status=x&event_id=")
        .await
        .invalid(&["limit", "status", "event_id"]);
    let backwards = "created_after=2026-03-02T00:00:00Z&created_before=2026-03-01T00:00:00Z";
    for path in ["/v1/theses?", "/v1/events?", "/v1/search?q=moon&"] {
        client.get(&format!("{path}{backwards}")).await.invalid(&["created_before"]);
    }
    let long = "x".repeat(201);
    client.get(&format!("/v1/tokens/{long}/activity?chain=&recent=x")).await.invalid(&["ref", "chain", "recent"]);

    let verify = json!({"handle": 7, "token": "", "chain": [], "created_before": "x", "contains": 1, "x": 1});
    let fields = ["handle", "token", "chain", "created_after", "created_before", "contains", "x"];
    client.post("/v1/verify/thesis", &verify).await.invalid(&fields);
    // A field in the wrong form is not missing.
    let given = json!({"profile_id": 7, "token": 7, "created_after": 7});
    client.post("/v1/verify/thesis", &given).await.invalid(&["profile_id", "token", "created_after"]);
    let webhook = json!({"url": "", "events": "x", "filters": {"token": 1, "chain": [""], "x": []}, "description": 1});
    let answer = client.post("/v1/webhooks", &webhook).await;
    let error = answer.error(422, "VALIDATION_FAILED");
    let named: BTreeSet<&str> =
        error["details"]["errors"].as_array().unwrap().iter().map(|error| text(error, "param")).collect();
    let all = ["url", "events", "filters.token", "filters.chain", "filters.x", "description"];
    assert_eq!((text(&error, "param"), named), ("url", all.into()));
    client.post("/v1/webhooks", &json!({})).await.invalid(&["url", "events"]);
    client.post("/v1/test/theses", &json!({})).await.invalid(&["handle", "token", "text"]);
    let thesis = json!({"text": 7, "token": "a b", "x": 1});
    client.post("/v1/test/theses", &thesis).await.invalid(&["handle", "token", "text", "x"]);
    // None of these requests did anything or counts as used.
    assert!(client.all("/v1/webhooks").await.is_empty());
    assert!(client.all("/v1/theses?token=FORMS").await.is_empty());
    let used = client.get("/v1/me/usage").await.ok(200);
    assert_eq!(used["month"]["used"], 3, "{used}");
}
