//! Headers of responses.

use serde_json::{Value, json};

/// The headers that report the rate window.
pub(super) const RATE_HEADERS: [&str; 5] =
    ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset", "RateLimit-Policy", "RateLimit"];

/// The headers of every response.
pub(super) const GENERAL_HEADERS: [&str; 3] = ["X-Service-Request-Id", "Cache-Control", "X-Content-Type-Options"];

/// All headers of responses, as a JSON object.
const HEADERS: &str = include_str!("headers.json");

pub(super) fn headers() -> Value {
    serde_json::from_str(HEADERS).expect("the file holds JSON")
}

/// References to these headers.
pub(super) fn header_refs(names: &[&str]) -> Value {
    let refs = names.iter().map(|name| {
        let path = format!("#/components/headers/{name}");
        ((*name).to_owned(), json!({ "$ref": path }))
    });
    Value::Object(refs.collect())
}
