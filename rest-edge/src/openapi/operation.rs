//! The description of one operation in OpenAPI: parameters, body, responses and examples, all from its route.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    errors,
    examples::{self, Example, example},
    headers::{GENERAL_HEADERS, RATE_HEADERS, header_refs},
    schema::{reference, schema},
    streams,
};
use crate::{
    input::{Kind, Param},
    route::{Route, SuccessResponse},
};

/// The query parameter of a stream's ticket.
pub(crate) const TICKET: &str = "ticket";

pub(super) fn operation(route: &Route, public_url: &str, now_ms: i64) -> Value {
    let example = example(route.id, public_url, now_ms);
    let mut operation = json!({
        "operationId": route.id,
        "tags": [route.tag],
        "summary": route.summary,
        "description": text(route).replace("](/docs/", &format!("]({public_url}/docs/")),
        "parameters": parameters(route),
        "security": security(route),
        "responses": {},
    });
    // A body without fields is optional, and generated clients would have nothing to put into it.
    if let Some(fields) = route.body.filter(|fields| !fields.is_empty()) {
        let required = fields.iter().any(|field| field.required);
        let mut content = json!({"schema": reference(route.body_name)});
        if let Some(Example { request, .. }) = example.as_ref().filter(|example| !example.request.is_null()) {
            content["example"] = request.clone();
        }
        let about = "The fields, as one JSON object.";
        operation["requestBody"] =
            json!({"description": about, "required": required, "content": {"application/json": content}});
    }
    let headers = headers(route);
    let mut success = json!({"description": route.summary, "headers": header_refs(&headers)});
    if let Some(content) = content(route, example) {
        success["content"] = content;
    }
    if route.has_parts {
        let mut part = success.clone();
        part["description"] = json!("The wanted part; `Content-Range` tells which.");
        operation["responses"]["206"] = part;
    }
    operation["responses"][route.status.to_string()] = success;
    if route.tagged || route.has_parts {
        let about = "The resource is still what `If-None-Match` names; there is no body.";
        operation["responses"]["304"] = json!({"description": about, "headers": header_refs(&headers)});
    }
    for (status, codes) in errors::by_status(route) {
        let name = errors::name(route, status, &codes);
        operation["responses"][status.to_string()] = json!({"$ref": format!("#/components/responses/{name}")});
    }
    match route.answers {
        SuccessResponse::Events => {
            let about = "The cursor is at the end of the replay or behind it; there is no body.";
            operation["responses"]["204"] = json!({"description": about, "headers": header_refs(&headers)});
            operation["x-event-stream"] = streams::frames();
        }
        SuccessResponse::Upgrade => operation["x-websocket-messages"] = streams::messages(),
        SuccessResponse::Resource(..) | SuccessResponse::Object(_) | SuccessResponse::Bytes { .. } => {}
    }
    operation
}

/// The rules of the operation, with the rules that it shares with others.
fn text(route: &Route) -> String {
    let mut text = route.about.to_owned();
    if route.operation.is_some() {
        let scope = route.scope.map_or("none, any key may".to_owned(), |scope| format!("`{scope}`"));
        let _ = write!(text, "\n\nScope: {scope}. Rate class: `{}`.", route.class);
    }
    if route.repeatable {
        text.push_str(" Takes an `Idempotency-Key`.");
    }
    if route.body.is_some_and(<[_]>::is_empty) {
        text.push_str(" Takes no body; `{}` counts as none.");
    }
    text
}

/// The alternative ways to authenticate.
fn security(route: &Route) -> Value {
    match (&route.operation, &route.answers) {
        (None, _) => json!([]),
        (_, SuccessResponse::Events) => json!([{"bearer": []}, {TICKET: []}]),
        // A WebSocket's first message may contain the key.
        (_, SuccessResponse::Upgrade) => json!([{"bearer": []}, {TICKET: []}, {}]),
        _ => json!([{"bearer": []}]),
    }
}

fn headers(route: &Route) -> Vec<&'static str> {
    let mut headers = GENERAL_HEADERS.to_vec();
    if route.operation.is_some() {
        headers.extend(RATE_HEADERS);
    }
    if route.repeatable {
        headers.push("Idempotent-Replayed");
    }
    if route.tagged || route.has_parts {
        headers.push("ETag");
    }
    if matches!(route.answers, SuccessResponse::Upgrade) {
        headers.push("Sec-WebSocket-Accept");
    }
    headers
}

fn content(route: &Route, example: Option<Example>) -> Option<Value> {
    let response = example.map(|example| example.response);
    let json = |schema: Value| {
        let mut content = json!({ "schema": schema });
        if let Some(response) = response {
            content["example"] = response;
        }
        Some(json!({"application/json": content}))
    };
    match &route.answers {
        SuccessResponse::Resource(name, _) => json(reference(name)),
        SuccessResponse::Object(name) => json(reference(name)),
        SuccessResponse::Bytes { kind, about, example } => {
            let schema = json!({"type": "string", "description": about});
            Some(json!({(*kind): {"schema": schema, "example": example}}))
        }
        SuccessResponse::Events => {
            let about = "Server-Sent Events; `x-event-stream` names the schema of each type's `data`.";
            let schema = json!({"type": "string", "description": about});
            Some(json!({"text/event-stream": {"schema": schema, "example": examples::STREAM}}))
        }
        SuccessResponse::Upgrade => None,
    }
}

fn give_example(parameter: &mut Value, example: Option<&str>) {
    if let Some(example) = example {
        parameter["example"] = json!(example);
    }
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters = Vec::new();
    if let Some((_, rest)) = route.path.split_once('{') {
        let name = rest.split('}').next().unwrap_or_default();
        let schema = json!({"type": "string", "minLength": 1, "maxLength": route.path_chars});
        let about = route.path_parameter;
        let mut parameter =
            json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema});
        give_example(&mut parameter, route.path_example);
        parameters.push(parameter);
    }
    if let Some(rest) = route.path.split('{').nth(2) {
        let name = rest.split('}').next().unwrap_or_default().trim_start_matches('*');
        let about = route.path_rest;
        let schema = json!({"type": "string", "minLength": 1});
        parameters.push(json!({"name": name, "in": "path", "required": true, "description": about, "schema": schema}));
    }
    let mut declare = |place: &str, param: &Param| {
        let about = match &param.kind {
            Kind::SomeOf(values) => format!("{}. There are `{}`", param.about, values().join("`, `")),
            _ => param.about.to_owned(),
        };
        let mut parameter = json!({
            "name": param.name,
            "in": place,
            "required": param.required,
            "description": about,
            "schema": schema(&param.kind),
        });
        give_example(&mut parameter, param.example);
        parameters.push(parameter);
    };
    // The ticket is a security scheme, not a parameter.
    let query = route.query.iter().filter(|param| !(route.opens_stream() && param.name == TICKET));
    query.for_each(|param| declare("query", param));
    route.headers.iter().for_each(|param| declare("header", param));
    if route.tagged {
        let about = "Answers 304 without a body when one of these `ETag`s is still the resource's";
        declare("header", &Param::new("If-None-Match", Kind::Text(0, usize::MAX), about));
    }
    if route.repeatable {
        let about = "Makes the request repeatable for 24 hours: a repeat returns the first answer";
        declare("header", &Param::new("Idempotency-Key", Kind::Text(1, 255), about));
    }
    parameters
}
