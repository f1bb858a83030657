//! The requests that webhooks receive.

use serde_json::{Map, Value, json};
use thesis_proto::{json::EventType, names, v1, webhook};
use utoipa::ToSchema as _;

use super::{
    events::{self, pascal},
    examples::example,
    schema::reference,
};

/// The type of a test delivery. It looks like an event but has a separate description.
const TEST: &str = "webhook.test";

/// The webhooks by event type, and the test delivery.
pub(super) fn webhooks(public_url: &str, now_ms: i64) -> Value {
    let mut webhooks = Map::new();
    for (event_type, name) in names::EVENT_TYPES {
        let about = about(*event_type);
        webhooks.insert((*name).to_owned(), json!({"post": post(name, name, about, public_url, now_ms)}));
    }
    let about = "A test send of `POST /v1/webhooks/{id}/test`: a `thesis.created` event with `test` true, in no log.";
    let event_type = names::event_type_name(v1::EventType::ThesisCreated);
    webhooks.insert(TEST.to_owned(), json!({"post": post(TEST, event_type, about, public_url, now_ms)}));
    webhooks.into()
}

fn about(event_type: v1::EventType) -> &'static str {
    match event_type {
        v1::EventType::ProfileUpdated => "A public field of a profile has changed; `changed` names the fields.",
        v1::EventType::TokenActivity => {
            "A token's counts after new theses, at most once in 5 seconds for a token; the last one is never lost."
        }
        v1::EventType::TokenThesisVelocity => {
            "How fast theses on a token arrive, at most once in 5 seconds for a token; the last one is never lost."
        }
        v1::EventType::AlertFiring => "An alert fires: its metric has crossed the threshold, once for each crossing.",
        v1::EventType::AlertResolved => "A firing alert has resolved: its metric has reached the value of recovery.",
        v1::EventType::ThesisCreated | v1::EventType::Unspecified => "A thesis was posted.",
    }
}

fn post(name: &str, event_type: &str, about: &str, public_url: &str, now_ms: i64) -> Value {
    let rules = "Sent as `POST` to each webhook whose `events` and `filters` match, with the webhook's own `headers` \
                 besides. Check `Service-Signature`, or `webhook-signature` by a library of Standard Webhooks, over \
                 the exact bytes of the body, then answer any 2xx within 5 seconds. Anything else, a redirect too, \
                 counts as failed and is tried again after 1 minute, 5 minutes, 30 minutes, 2 hours and 12 hours. An \
                 event may arrive more than once, with the same id, and out of order.";
    let full = reference(&events::name(event_type));
    let mut content = json!({"schema": {"anyOf": [full, reference(events::THIN)]}});
    if let Some(example) = example(&format!("event_{name}"), public_url, now_ms) {
        content["example"] = example.response;
    }
    json!({
        "operationId": format!("on{}", pascal(name)),
        "tags": ["Webhooks"],
        "summary": about,
        "description": rules,
        "security": [],
        "parameters": parameters(),
        "requestBody": {
            "description": "The event, as `GET /v1/events` lists it. A webhook with the payload `thin` gets only \
                            `object`, `id`, `type`, `created_at` and `livemode`.",
            "required": true,
            "content": {"application/json": content},
        },
        "responses": {
            "2XX": {"description": "The event has arrived. The body is not looked at."},
            "410": {"description": "The endpoint is gone: the webhook becomes `disabled` at once."},
            "default": {"description": "The attempt has failed; it is made again, six attempts in all."},
        },
    })
}

fn parameters() -> Vec<Value> {
    let text = || json!({"type": "string"});
    let flag = || json!({"type": "string", "enum": ["true", "false"]});
    let all = [
        (
            webhook::SIGNATURE,
            true,
            "`t=<unix seconds>,v1=<hex>`: `v1` is the HMAC-SHA256 of `<t>.<raw body>`, keyed with the signing secret. \
             After a rotation there are two `v1`, and one must match. Refuse a `t` more than 300 seconds away.",
            text(),
        ),
        (
            webhook::STANDARD_SIGNATURE,
            true,
            "The signatures of Standard Webhooks over `<webhook-id>.<webhook-timestamp>.<raw body>`, with spaces \
             between them: `v1,<base64>` for each valid signing secret, and `v1a,<base64>` by the webhook's `public_key`.",
            text(),
        ),
        (webhook::STANDARD_ID, true, "The event's id, as Standard Webhooks names it.", text()),
        (
            webhook::STANDARD_TIMESTAMP,
            true,
            "Time of the attempt in Unix seconds. Refuse one more than 300 seconds away.",
            text(),
        ),
        (webhook::EVENT_ID, true, "The event's id, the same in every attempt and replay; it tells repeats.", text()),
        (webhook::EVENT_TYPE, true, "The event's type.", reference(&EventType::name())),
        (webhook::DELIVERY_ID, true, "The delivery's id.", text()),
        (webhook::DELIVERY_ATTEMPT, true, "Number of the attempt, from 1.", json!({"type": "integer", "minimum": 1})),
        (webhook::REPLAY, true, "Whether the delivery is a replay.", flag()),
        (webhook::REPLAY_OF, false, "Replays only: the delivery that it repeats.", text()),
        (webhook::TEST, false, "`true` on test sends and their replays; else absent.", flag()),
        ("user-agent", true, "Names the sender.", json!({"type": "string", "enum": [webhook::USER_AGENT]})),
    ];
    let parameters = all.into_iter().map(|(name, required, about, schema)| {
        json!({"name": title(name), "in": "header", "required": required, "description": about, "schema": schema})
    });
    parameters.collect()
}

/// The common spelling of a header's name: `service-event-id` becomes `Service-Event-Id`.
fn title(name: &str) -> String {
    name.split('-').map(pascal).collect::<Vec<_>>().join("-")
}
