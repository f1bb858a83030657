//! Headers of responses.

use serde_json::{Value, json};

/// The headers that report the rate window.
pub(super) const RATE_HEADERS: [&str; 5] =
    ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"];

/// The headers of every response.
pub(super) const GENERAL_HEADERS: [&str; 3] = ["X-Service-Request-Id", "Cache-Control", "X-Content-Type-Options"];

/// All headers of responses.
pub(super) fn headers() -> Value {
    let header = |about: &str, schema: Value, example: Value| json!({"description": about, "schema": schema, "example": example});
    let text = || json!({"type": "string"});
    let count = || json!({"type": "integer", "minimum": 0});
    json!({
        "X-Service-Request-Id": header(
            "Unique id of the request; errors repeat it as `error.request_id`. Name it when you ask for help.",
            json!({"type": "string", "pattern": "^req_"}),
            json!("req_77da226c80d4dbf1c21b7bee"),
        ),
        "X-RateLimit-Limit": header(
            "Requests that the operation's rate class allows in a minute, per project and environment.", count(), json!(1200),
        ),
        "X-RateLimit-Remaining": header("Requests left in this minute.", count(), json!(1199)),
        "X-RateLimit-Reset": header("Unix time in seconds when the minute ends.", count(), json!(1_795_466_400)),
        "RateLimit-Policy": header(
            "The same limit in the form of the IETF draft: class, quota, window in seconds.",
            text(),
            json!("\"standard\";q=1200;w=60"),
        ),
        "RateLimit": header(
            "What is left in the form of the IETF draft: class, requests left, seconds until the window ends.",
            text(),
            json!("\"standard\";r=1199;t=4"),
        ),
        "Idempotent-Replayed": header(
            "`true` on an answer that was given before to the same `Idempotency-Key`; else absent.",
            json!({"type": "string", "enum": ["true"]}),
            json!("true"),
        ),
        "ETag": header(
            "Names the resource's state, for `If-None-Match`.", text(), json!("W/\"72e52122f8ceb153fdeb5425f50e9fa6\""),
        ),
        "Cache-Control": header(
            "How the answer may be kept: not at all, unless it has an `ETag`.", text(), json!("no-store"),
        ),
        "X-Content-Type-Options": header(
            "Tells browsers to believe the media type.", json!({"type": "string", "enum": ["nosniff"]}), json!("nosniff"),
        ),
        "Retry-After": header("Seconds to wait before the next try.", json!({"type": "integer", "minimum": 1}), json!(12)),
        "Sec-WebSocket-Version": header("The version that is spoken.", text(), json!("13")),
        "Sec-WebSocket-Accept": header(
            "Proves that the handshake was understood (RFC 6455).", text(), json!("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="),
        ),
        "Allow": header("Methods that the path answers.", text(), json!("GET, HEAD, OPTIONS")),
    })
}

/// References to these headers.
pub(super) fn header_refs(names: &[&str]) -> Value {
    let refs = names.iter().map(|name| {
        let path = format!("#/components/headers/{name}");
        ((*name).to_owned(), json!({ "$ref": path }))
    });
    Value::Object(refs.collect())
}
