//! Failures: the codes of an operation, and an example response of each.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use thesis_proto::error::ErrorCode as Code;

use super::headers::{GENERAL_HEADERS, RATE_HEADERS, header_refs};
use crate::{
    answer::Envelopes,
    route::{Route, SuccessResponse},
};

/// A code, its reason, the message of its example, and the other fields of the example in JSON.
type ErrorExample = (Code, &'static str, &'static str, &'static str);

/// All codes of the API's operations. A system test compares the examples with real responses.
#[rustfmt::skip]
const ERROR_EXAMPLES: &[ErrorExample] = &[
    (Code::InvalidRequest, "the request is malformed, or holds a key in its query string", "the body is not valid JSON; send one JSON object in UTF-8", "{}"),
    (Code::InvalidCursor, "the cursor was not made by this service for this list and these filters", "this cursor was not made by this service for this list and these filters; take the last page's next_cursor, or leave it out", r#"{"param":"cursor"}"#),
    (Code::MissingApiKey, "there is no `Authorization` header, or it holds no Bearer token", "send the API key as `Authorization: Bearer <API_KEY>`", "{}"),
    (Code::InvalidApiKey, "the key or the ticket does not exist or is malformed", "this API key does not exist; send one that was created in the console, whole", "{}"),
    (Code::ApiKeyRevoked, "the key was revoked", "this API key was revoked; use another one, or create one in the console", "{}"),
    (Code::ApiKeyExpired, "the key is past its end", "this API key has expired; use another one, or create one in the console", "{}"),
    (Code::InsufficientScope, "the key lacks the operation's scope", "this key lacks the scope webhooks:write; create a key that has it", "{}"),
    (Code::LiveAccessNotApproved, "a live key's project is not approved for live data", "this project is not approved for live access; ask for it in the console, or use a test key", "{}"),
    (Code::ProjectArchived, "the key's project is archived", "this project is archived; use a key of another project", "{}"),
    (Code::HistoryLimit, "a bound, or what is asked for, is older than the plan's history window", "the plan's history reaches 7 days back; ask for a later time", "{}"),
    (Code::WebhookLimitReached, "the plan allows no more webhooks", "the plan allows 3 webhooks per project and environment; delete one, or ask for another plan", r#"{"details":{"limit":3,"environment":"test"}}"#),
    (Code::TestKeyRequired, "the key is a live one, and the operation takes test keys only", "this operation takes test keys only; send a key that begins with svc_test_", "{}"),
    (Code::FeatureDisabled, "the feature is switched off", "the Wallets API is not enabled here; ask who runs the service for it", "{}"),
    (Code::ProfileNotFound, "there is no such profile", "there is no profile @sbx_runnre; did you mean @sbx_runner?", r#"{"details":{"near":["@sbx_runner"]}}"#),
    (Code::ThesisNotFound, "there is no such thesis", "there is no such thesis; list those that you see with GET /v1/theses", "{}"),
    (Code::TokenNotFound, "there is no such token", "there is no token $RNU; did you mean $RUN?", r#"{"details":{"near":["$RUN"]}}"#),
    (Code::EventNotFound, "there is no such event", "there is no such event; list those that you see with GET /v1/events", "{}"),
    (Code::WebhookNotFound, "there is no such webhook", "there is no such webhook; list yours with GET /v1/webhooks", "{}"),
    (Code::DeliveryNotFound, "there is no such delivery", "there is no such delivery; list a webhook's with GET /v1/webhooks/{id}/deliveries", "{}"),
    (Code::RouteNotFound, "the parameter is empty or holds a `/`, so that the path leads nowhere", "there is nothing under this path; GET /v1/openapi.json lists every path", "{}"),
    (Code::MethodNotAllowed, "the path does not answer this method; `Allow` lists those that it does", "this path does not answer that method; send one of GET, HEAD, OPTIONS", "{}"),
    (Code::AmbiguousToken, "the symbol is that of several tokens; `details.candidates` lists them", "this names several tokens; give the chain or the address", r#"{"param":"token","details":{"candidates":[{"id":"tk_0746zn8kavzhdrzdb22f5rt2","symbol":"$RUN","name":"Run","chain":"base","address":"0x9f2a6c1d84b07e35a2f9c8d1e6b4073f5a8d2c19"},{"id":"tk_8wrj3gbtc9jp7sn4st8wf6s9","symbol":"$RUN","name":"Run","chain":"solana","address":"6Qk1vT9xJ3mWzR8bNf4cHs2YpLdG7aEuXo5KtMqVrBw"}]}}"#),
    (Code::IdempotencyInProgress, "a request with this `Idempotency-Key` is still under way", "a request with this idempotency key is being answered; send it again in a second", "{}"),
    (Code::DeliveryInProgress, "the delivery is not over yet", "the delivery is still under way: replay it once it is delivered or failed", "{}"),
    (Code::PayloadTooLarge, "the body is larger than 64 KiB", "a body may have 64 KiB at most; send less", "{}"),
    (Code::ValidationFailed, "parameters or fields are unknown or break their rules; `details.errors` lists all", "limit: must be from 1 to 100", r#"{"param":"limit","details":{"errors":[{"message":"must be from 1 to 100","param":"limit"},{"message":"unknown; did you mean `token`?","param":"tokn"}]}}"#),
    (Code::IdempotencyKeyReused, "the `Idempotency-Key` came before with another request", "this idempotency key was used for another request; choose a new key for each request", "{}"),
    (Code::WebhookUrlForbidden, "the URL is refused; `details.reason` says why", "this URL cannot receive webhooks: its port is not allowed; use 443, 80, or one from 1024 to 65535 that no well-known database or infrastructure uses", r#"{"param":"url","details":{"reason":"port"}}"#),
    (Code::RateLimited, "the requests of this minute are used up", "more than 300 requests of class standard in this minute; wait for the next", "{}"),
    (Code::QuotaExceeded, "the requests of this month are used up", "the plan's 1000000 requests of this month are used up; wait for the next month, or ask for another plan", "{}"),
    (Code::StreamLimitReached, "the plan allows no more streams at once", "the plan allows 2 concurrent streams per project; close one, or ask for another plan", r#"{"details":{"limit":2,"open":2}}"#),
    (Code::InternalError, "something went wrong on the service's side", "something went wrong here; the request id helps to find it", "{}"),
    (Code::UpstreamUnavailable, "the upstream cannot be reached, and what is known does not suffice", "this is not known here, and the upstream cannot be asked now; try again later", "{}"),
    (Code::ServiceUnavailable, "the service cannot answer right now", "the service cannot answer right now; try again", "{}"),
];

/// The codes of all operations that need a key.
const KEYED: &[Code] = &[
    Code::MissingApiKey,
    Code::InvalidApiKey,
    Code::ApiKeyRevoked,
    Code::ApiKeyExpired,
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
    ERROR_EXAMPLES.iter().map(|(code, ..)| *code)
}

fn codes(route: &Route) -> Vec<Code> {
    let has = |name: &str| route.query.iter().any(|param| param.name == name);
    let mut codes = ALWAYS.to_vec();
    if route.operation.is_some() {
        codes.extend(KEYED);
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

/// The statuses of an operation's failures, and the codes of each.
pub(super) fn by_status(route: &Route) -> BTreeMap<u16, Vec<Code>> {
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
    let special = codes.iter().filter(|code| !KEYED.contains(code) && !ALWAYS.contains(code));
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

fn reason(code: Code, status: u16) -> &'static str {
    let reason = ERROR_EXAMPLES.iter().find(|(known, ..)| *known == code).map(|(_, reason, ..)| *reason);
    match status {
        UPGRADE_REQUIRED => "the version of the WebSocket protocol is not 13",
        _ => reason.unwrap_or_default(),
    }
}

/// An example response for each code.
pub(super) fn examples(public_url: &str) -> Map<String, Value> {
    let envelopes = Envelopes::new(public_url);
    let each = ERROR_EXAMPLES.iter().map(|(code, reason, message, more)| {
        let name = code.as_str();
        let mut error: Value = serde_json::from_str(more).expect("the table holds JSON");
        error["type"] = json!(code.error_type());
        error["code"] = json!(name);
        error["message"] = json!(message);
        error["request_id"] = json!("req_6e089ad8d9e2f5a0c7b41d33");
        error["doc_url"] = json!(envelopes.doc_url(*code));
        let summary = format!("{}{}", reason[..1].to_uppercase(), &reason[1..]);
        (name.to_owned(), json!({"summary": summary, "value": {"error": error}}))
    });
    each.collect()
}
