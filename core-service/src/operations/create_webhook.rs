//! Creates a webhook. Only this response and those of repeated requests have its signing secret. Fails with
//! `WEBHOOK_URL_FORBIDDEN` or `WEBHOOK_LIMIT_REACHED`.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode},
    names, v1,
};

use super::{fields::Fields, get_webhook::shown, webhook_headers};
use crate::{
    access::gate::Call,
    domain::{
        control::{ControlChange, Webhook},
        id,
    },
    error::{Error, Result},
    keys::key_ring::SealPurpose,
    service::Core,
};

/// Characters of a signing secret that may be shown.
pub(super) const SECRET_PREFIX: usize = "whsec_".len() + 4;

/// Checks the event types of a webhook.
pub(super) fn check_events(fields: &mut Fields, numbers: &[i32]) {
    if !(1..=10).contains(&numbers.len()) {
        fields.reject("events", "must have 1 to 10 items");
    }
    let is_known =
        |number: &i32| v1::EventType::try_from(*number).is_ok_and(|event| event != v1::EventType::Unspecified);
    if !numbers.iter().all(is_known) {
        let known: Vec<&str> = names::EVENT_TYPES.iter().map(|(_, name)| *name).collect();
        fields.reject("events", format!("names an unknown event type; it must be of: {}", known.join(", ")));
    }
}

/// The event types of a webhook, each once.
pub(super) fn distinct(numbers: &[i32]) -> Vec<i32> {
    let mut events = Vec::new();
    for number in numbers {
        if !events.contains(number) {
            events.push(*number);
        }
    }
    events
}

pub async fn create_webhook(
    core: &Core,
    call: &Call,
    message: v1::CreateWebhookRequest,
) -> Result<v1::CreateWebhookResponse> {
    let mut fields = Fields::default();
    fields.required("url", message.url.as_deref(), 1..=2048);
    check_events(&mut fields, &message.events);
    fields.filter(&[], message.filters.as_ref(), "filters.");
    fields.optional_length("description", message.description.as_deref(), 0..=500);
    webhook_headers::check(&mut fields, &message.headers, false);
    fields.choice::<v1::WebhookPayload>("payload", message.payload);
    fields.finish()?;
    let headers = webhook_headers::hash_values(&core.shared.keys, &message.headers);
    let repeatable = v1::CreateWebhookRequest { headers, ..message.clone() };
    call.charge().await?;
    core.idempotency.once(call, &repeatable, async |seed: &str| create(core, call, &message, seed).await).await
}

/// Creates a webhook with an id derived from the seed.
async fn create(
    core: &Core,
    call: &Call,
    message: &v1::CreateWebhookRequest,
    seed: &str,
) -> Result<v1::CreateWebhookResponse> {
    let caller = &call.caller;
    let url = message.url.clone().unwrap_or_default();
    core.urls.vet(&url, caller.key.live).await?;
    let id = id::derive("wh_", &[seed]);
    let secret = core.shared.keys.signing_secret(&format!("{id} {seed}"));
    let sealed = core.shared.keys.seal(SealPurpose::WebhookSecret(&id), secret.as_bytes());
    let filters = message.filters.clone().unwrap_or_default();
    let new = Webhook {
        id,
        project_id: caller.project.id.clone(),
        live: caller.key.live,
        url,
        description: message.description.clone(),
        events: distinct(&message.events),
        tokens: filters.token,
        handles: filters.handle,
        chains: filters.chain,
        texts: filters.text,
        status: v1::WebhookStatus::Enabled.into(),
        secret: sealed,
        secret_prefix: secret.chars().take(SECRET_PREFIX).collect(),
        created_at: call.now_ms,
        updated_at: call.now_ms,
        payload: message.payload,
        ..Webhook::default()
    };
    let new = Webhook { headers: webhook_headers::merge(&core.shared.keys, &new, &message.headers)?, ..new };
    let limit = caller.plan.webhook_endpoints;
    let webhook = core
        .shared
        .control
        .change(call.actor().does("webhook.created"), |state| {
            call.demand_right(state)?;
            // Only an earlier attempt of this request can have created it.
            if let Some(existing) = state.webhook(&new.id) {
                return Ok((Vec::new(), Arc::clone(existing)));
            }
            let used = state.webhooks(&caller.project.id, caller.key.live).count();
            if used >= usize::try_from(limit).unwrap_or(usize::MAX) {
                let environment = if caller.key.live { "live" } else { "test" };
                let message = format!(
                    "the plan allows {limit} webhooks per project and environment; delete one, or ask for another plan"
                );
                let details = serde_json::json!({ "limit": limit, "environment": environment });
                return Err(ApiError::new(ErrorCode::WebhookLimitReached, message).with_details(details).into());
            }
            Ok((vec![ControlChange::Webhook(new.clone())], Arc::new(new.clone())))
        })
        .await?;
    let secret = signing_secret(core, &webhook)?;
    Ok(v1::CreateWebhookResponse { webhook: Some(shown(core, &webhook)), secret })
}

/// Decrypts the signing secret of a webhook. Fails if it was encrypted with another secret key.
pub fn signing_secret(core: &Core, webhook: &Webhook) -> Result<String> {
    let plain = core.shared.keys.open(SealPurpose::WebhookSecret(&webhook.id), &webhook.secret);
    let secret = plain.and_then(|plain| String::from_utf8(plain).ok());
    secret.ok_or_else(|| Error::internal(format!("the secret of {} cannot be decrypted", webhook.id)))
}
