//! The API's description in OpenAPI 3.1, written from the routes themselves.

use serde_json::{Map, Value, json};
use thesis_proto::{filter, json::ErrorEnvelope, names};
use utoipa::{PartialSchema as _, ToSchema as _};

use crate::{
    input::{Kind, Param, texts},
    route::{Answers, Route},
    v1,
};

/// The description of the API that an edge under this address serves.
#[must_use]
pub fn openapi(public_url: &str) -> Value {
    describe(&v1::routes(), public_url)
}

/// The description of these routes.
pub(crate) fn describe(routes: &[Route], public_url: &str) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    let mut errors = vec![(ErrorEnvelope::name().into_owned(), ErrorEnvelope::schema())];
    ErrorEnvelope::schemas(&mut errors);
    let resources = routes.iter().filter_map(|route| match &route.answers {
        Answers::Resource(_, schemas) => Some(schemas),
        _ => None,
    });
    for (name, schema) in resources.flatten().chain(&errors) {
        schemas.insert(name.clone(), serde_json::to_value(schema).unwrap_or_default());
    }
    for route in routes {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Trade Thesis Data Service",
            "version": v1::VERSION,
            "description": "Trade theses, profiles, tokens and their events. Every request carries \
                `Authorization: Bearer <API_KEY>`; a test key sees sandbox data, a live key real data. What answers \
                `GET`, streams apart, answers `HEAD` as well, and every path answers `OPTIONS`, without a key. Pages of \
                any origin may call. Bodies are compressed with `gzip` or `zstd` when `Accept-Encoding` asks for it. In a \
                body, null for an optional field is the same as leaving it out.",
        },
        "servers": [{"url": public_url}],
        "security": [{"bearer": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "bearerFormat": "svc_test_… or svc_live_…"},
            },
            "headers": headers(),
            "responses": responses(),
            "schemas": schemas,
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": route.id,
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": parameters(route),
        "responses": {},
    });
    if route.operation.is_none() {
        operation["security"] = json!([]);
    }
    if let Some(fields) = route.body {
        let required = fields.iter().any(|field| field.required);
        operation["requestBody"] =
            json!({"required": required, "content": {"application/json": {"schema": object(fields)}}});
    }
    let mut headers = vec!["X-Service-Request-Id"];
    if route.operation.is_some() {
        headers.extend(RATE_HEADERS);
    }
    if route.repeatable {
        headers.push("Idempotent-Replayed");
    }
    if route.tagged {
        headers.push("ETag");
    }
    let content = match &route.answers {
        Answers::Resource(name, _) => {
            json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{name}")}}})
        }
        Answers::Object => json!({"application/json": {"schema": {"type": "object"}}}),
        Answers::Events => json!({"text/event-stream": {"schema": {"type": "string"}}}),
        Answers::Upgrade => json!({}),
    };
    operation["responses"][route.status.to_string()] =
        json!({"description": route.summary, "headers": header_refs(&headers), "content": content});
    if route.tagged {
        let about = "The resource is still what `If-None-Match` names";
        operation["responses"]["304"] = json!({"description": about, "headers": header_refs(&headers)});
    }
    for status in failures(route) {
        operation["responses"][status.to_string()] = json!({"$ref": format!("#/components/responses/{status}")});
    }
    operation
}

/// The statuses with which an operation can fail.
pub(crate) fn failures(route: &Route) -> Vec<u16> {
    let mut statuses = vec![400, 405, 422];
    if route.operation.is_some() {
        statuses.extend([401, 403, 429, 500, 503]);
    }
    if route.path.contains('{') {
        statuses.push(404);
    }
    if route.body.is_some() {
        statuses.push(413);
    }
    statuses.extend(route.fails);
    statuses.sort_unstable();
    statuses.dedup();
    statuses
}

fn parameters(route: &Route) -> Vec<Value> {
    let mut parameters = Vec::new();
    if let Some((_, rest)) = route.path.split_once('{') {
        let name = rest.split('}').next().unwrap_or_default();
        let schema = json!({"type": "string", "minLength": 1, "maxLength": route.path_chars});
        parameters.push(
            json!({"name": name, "in": "path", "required": true, "description": route.path_parameter, "schema": schema}),
        );
    }
    let mut declare = |place: &str, param: &Param| {
        let mut parameter = json!({
            "name": param.name,
            "in": place,
            "required": param.required,
            "description": param.about,
            "schema": schema(&param.kind),
        });
        if matches!(param.kind, Kind::Texts | Kind::SomeOf(_)) {
            parameter["schema"]["minItems"] = json!(1);
            parameter["style"] = json!("form");
            parameter["explode"] = json!(false);
        }
        parameters.push(parameter);
    };
    route.query.iter().for_each(|param| declare("query", param));
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

fn object(fields: &[Param]) -> Value {
    let mut properties = Map::new();
    for field in fields {
        let mut property = schema(&field.kind);
        property["description"] = json!(field.about);
        properties.insert(field.name.to_owned(), property);
    }
    let required: Vec<_> = fields.iter().filter(|field| field.required).map(|field| field.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

fn schema(kind: &Kind) -> Value {
    let event_type = json!({"type": "string", "enum": texts(names::EVENT_TYPES)});
    let some = json!({
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": filter::MAX_VALUE_CHARS},
        "maxItems": filter::MAX_VALUES,
    });
    match kind {
        Kind::Text(0, usize::MAX) => json!({"type": "string"}),
        Kind::Text(0, max) => json!({"type": "string", "maxLength": max}),
        Kind::Text(min, max) => json!({"type": "string", "minLength": min, "maxLength": max}),
        Kind::NullableText(max) => json!({"type": ["string", "null"], "maxLength": max}),
        Kind::Time => json!({"type": "string", "format": "date-time", "maxLength": 200}),
        Kind::Integer(min, max, default) => {
            json!({"type": "integer", "minimum": min, "maximum": max, "default": default})
        }
        Kind::OneOf(values) => json!({"type": "string", "enum": values()}),
        Kind::Texts => some,
        Kind::SomeOf(values) => json!({"type": "array", "items": {"type": "string", "enum": values()}}),
        Kind::EventTypeList(min, max) => {
            json!({"type": "array", "items": event_type, "minItems": min, "maxItems": max})
        }
        Kind::Filters => json!({
            "type": "object",
            "properties": {"token": some, "handle": some, "chain": some},
            "additionalProperties": false,
        }),
    }
}

const RATE_HEADERS: [&str; 5] =
    ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"];

fn headers() -> Value {
    let header = |about: &str, kind: &str| json!({"description": about, "schema": {"type": kind}});
    json!({
        "X-Service-Request-Id": header("Unique id of the request, `req_…`", "string"),
        "X-RateLimit-Limit": header("Requests allowed in the current window", "integer"),
        "X-RateLimit-Remaining": header("Requests left in the window", "integer"),
        "X-RateLimit-Reset": header("Unix time in seconds when the window resets", "integer"),
        "RateLimit-Policy": header("The window's policy, as in the IETF draft", "string"),
        "RateLimit": header("The window's state, as in the IETF draft", "string"),
        "Idempotent-Replayed": header("`true` on an answer that was given before", "string"),
        "ETag": header("The resource's state", "string"),
        "Retry-After": header("Seconds to wait", "integer"),
        "Sec-WebSocket-Version": header("The version that is spoken: 13", "string"),
        "Allow": header("Methods that the path answers", "string"),
    })
}

fn header_refs(names: &[&str]) -> Value {
    let refs = names.iter().map(|name| {
        let path = format!("#/components/headers/{name}");
        ((*name).to_owned(), json!({ "$ref": path }))
    });
    Value::Object(refs.collect())
}

fn responses() -> Value {
    let all = [
        (400, "The request is malformed", None),
        (401, "The key is missing, invalid, revoked or expired", None),
        (403, "The key may not do this", None),
        (404, "It does not exist, or its feature is disabled", None),
        (405, "The path does not answer this method", Some("Allow")),
        (409, "It conflicts with what there is or is under way", None),
        (413, "The body is larger than 64 KiB", None),
        (422, "Parameters or fields are unknown or do not follow their rules; `details.errors` lists all", None),
        (426, "The version of the WebSocket protocol is not 13", Some("Sec-WebSocket-Version")),
        (429, "A rate limit or quota is used up", Some("Retry-After")),
        (500, "Something went wrong here", None),
        (503, "The service or its upstream cannot be reached", Some("Retry-After")),
    ];
    let described = all.into_iter().map(|(status, about, header)| {
        let mut headers = vec!["X-Service-Request-Id"];
        headers.extend(header);
        if status != 405 {
            headers.extend(RATE_HEADERS);
        }
        let content = json!({"application/json": {"schema": {"$ref": "#/components/schemas/ErrorEnvelope"}}});
        (status.to_string(), json!({"description": about, "headers": header_refs(&headers), "content": content}))
    });
    Value::Object(described.collect())
}
