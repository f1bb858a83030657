//! Failures: the codes of an operation, and an example response of each.

#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::LazyLock};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use thesis_proto::error::ErrorCode as Code;

use super::headers::{GENERAL_HEADERS, RATE_HEADERS, header_refs};
use crate::{
    answer::Envelopes,
    route::{Route, SuccessResponse},
};

/// The texts of `errors.toml`, by the name of the code.
static TEXTS: LazyLock<BTreeMap<String, ErrorTexts>> =
    LazyLock::new(|| toml::from_str(include_str!("../../errors.toml")).expect("tests read the same file"));

/// The texts that the description has of a code. The guide has the others.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorTexts {
    /// Empty if no operation of the API has the code.
    reason: String,
    /// The message of the example.
    message: String,
    /// The other fields of the example.
    example: Map<String, Value>,
}

/// The codes of the API's operations. A system test compares their examples with real responses.
fn described() -> impl Iterator<Item = (Code, &'static ErrorTexts)> {
    let texts = Code::ALL.iter().filter_map(|code| Some((*code, TEXTS.get(code.as_str())?)));
    texts.filter(|(_, texts)| !texts.reason.is_empty())
}

/// The codes of all operations that need a key.
const KEYED: &[Code] = &[
    Code::MissingApiKey,
    Code::InvalidApiKey,
    Code::ApiKeyRevoked,
    Code::ApiKeyExpired,
    Code::AddressNotAllowed,
    Code::LiveAccessNotApproved,
    Code::ProjectArchived,
    Code::RateLimited,
    Code::QuotaExceeded,
    Code::InternalError,
    Code::ServiceUnavailable,
];
/// The codes of all operations.
const ALWAYS: &[Code] = &[Code::InvalidRequest, Code::MethodNotAllowed, Code::ValidationFailed];

/// The status for another version of the WebSocket protocol. It has no separate code.
const UPGRADE_REQUIRED: u16 = 426;

pub(super) fn all_codes() -> impl Iterator<Item = Code> {
    described().map(|(code, _)| code)
}

fn codes(route: &Route) -> Vec<Code> {
    let has = |name: &str| route.query.iter().any(|param| param.name == name);
    let mut codes = ALWAYS.to_vec();
    if route.operation.is_some() {
        codes.extend(KEYED);
    }
    if route.open_rpc.is_some() {
        codes.extend([Code::RateLimited, Code::InternalError, Code::ServiceUnavailable]);
    }
    if route.scope.is_some() {
        codes.push(Code::InsufficientScope);
    }
    if has("cursor") || has("from_cursor") {
        codes.push(Code::InvalidCursor);
    }
    if route.path.contains('{') {
        codes.push(Code::RouteNotFound);
    }
    if route.body.is_some() {
        codes.push(Code::PayloadTooLarge);
    }
    if route.operation.is_some() && route.repeatable {
        codes.extend([Code::IdempotencyInProgress, Code::IdempotencyKeyReused]);
    }
    codes.extend(route.fails);
    codes.sort_by_key(|code| Code::ALL.iter().position(|other| other == code));
    codes
}

/// True if every operation with a key has the code.
pub(crate) fn is_common(code: Code) -> bool {
    KEYED.contains(&code) || ALWAYS.contains(&code)
}

/// The statuses of an operation's failures, and the codes of each.
pub(crate) fn by_status(route: &Route) -> BTreeMap<u16, Vec<Code>> {
    let mut statuses = BTreeMap::<u16, Vec<Code>>::new();
    for code in codes(route) {
        statuses.entry(code.http_status()).or_default().push(code);
    }
    if matches!(route.answers, SuccessResponse::Upgrade) {
        statuses.insert(UPGRADE_REQUIRED, vec![Code::InvalidRequest]);
    }
    statuses
}

/// The component name of the response with these codes.
pub(super) fn name(route: &Route, status: u16, codes: &[Code]) -> String {
    let special = codes.iter().filter(|code| !is_common(**code));
    let public = if route.operation.is_none() { "Public" } else { "" };
    special.fold(format!("{public}Error{status}"), |name, code| name + "_" + code.as_str())
}

/// All failure responses of these routes.
pub(super) fn responses(routes: &[Route]) -> Value {
    let mut responses = Map::new();
    for route in routes {
        for (status, codes) in by_status(route) {
            let name = name(route, status, &codes);
            responses.entry(name).or_insert_with(|| response(route, status, &codes));
        }
    }
    Value::Object(responses)
}

fn response(route: &Route, status: u16, codes: &[Code]) -> Value {
    let mut headers = GENERAL_HEADERS.to_vec();
    headers.extend(match status {
        405 => Some("Allow"),
        429 | 503 => Some("Retry-After"),
        UPGRADE_REQUIRED => Some("Sec-WebSocket-Version"),
        _ => None,
    });
    // Core sends them after it accepts the key.
    if route.operation.is_some() && ![401, 405].contains(&status) {
        headers.extend(RATE_HEADERS);
    }
    let lines: Vec<String> =
        codes.iter().map(|code| format!("- `{}`: {}.", code.as_str(), reason(*code, status))).collect();
    let examples = codes.iter().map(|code| {
        let name = code.as_str();
        (name.to_owned(), json!({"$ref": format!("#/components/examples/{name}")}))
    });
    let examples: Map<String, Value> = examples.collect();
    let content = json!({
        "schema": {"$ref": "#/components/schemas/ErrorEnvelope"},
        "examples": examples,
    });
    json!({
        "description": lines.join("\n"),
        "headers": header_refs(&headers),
        "content": {"application/json": content},
    })
}

/// When an operation has the code with this status, in a sentence without its point.
pub(crate) fn reason(code: Code, status: u16) -> &'static str {
    match status {
        UPGRADE_REQUIRED => "the version of the WebSocket protocol is not 13",
        _ => TEXTS.get(code.as_str()).map_or("", |texts| texts.reason.as_str()),
    }
}

/// An example response for each code.
pub(super) fn examples(public_url: &str) -> Map<String, Value> {
    let envelopes = Envelopes::new(public_url);
    let each = described().map(|(code, ErrorTexts { reason, message, example })| {
        let name = code.as_str();
        let mut error = Value::Object(example.clone());
        error["type"] = json!(code.error_type());
        error["code"] = json!(name);
        error["message"] = json!(message);
        error["request_id"] = json!("req_6e089ad8d9e2f5a0c7b41d33");
        error["doc_url"] = json!(envelopes.doc_url(code));
        let summary = format!("{}{}", reason[..1].to_uppercase(), &reason[1..]);
        (name.to_owned(), json!({"summary": summary, "value": {"error": error}}))
    });
    each.collect()
}
