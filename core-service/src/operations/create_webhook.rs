//! Creates a webhook.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

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

/// A webhook to create, with checked shape.
#[derive(Clone, Debug, Default)]
pub struct NewWebhook {
    /// The address that receives its deliveries.
    pub url: String,
    /// Numbers of the event types, each once.
    pub events: Vec<i32>,
    /// The filters of its events.
    pub filters: v1::EventFilters,
    /// A text for people.
    pub description: Option<String>,
}

/// Creates a webhook with an id derived from the seed. Returns it with its signing secret.
///
/// # Errors
/// `WEBHOOK_URL_FORBIDDEN`, `WEBHOOK_LIMIT_REACHED`, or when the store does not answer.
pub async fn create_webhook(core: &Core, call: &Call, new: &NewWebhook, seed: &str) -> Result<(Arc<Webhook>, String)> {
    let caller = &call.caller;
    core.urls.vet(&new.url, caller.key.live).await?;
    let id = id::derive("wh_", &[seed]);
    let secret = core.shared.keys.signing_secret(&format!("{id} {seed}"));
    let sealed = core.shared.keys.seal(SealPurpose::WebhookSecret(&id), secret.as_bytes());
    let limit = caller.plan.webhook_endpoints;
    let webhook = core
        .shared
        .control
        .change(call.actor().does("webhook.created"), |state| {
            call.demand_right(state)?;
            // Only an earlier attempt of this request can have created it.
            if let Some(existing) = state.webhook(&id) {
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
            let webhook = Webhook {
                id: id.clone(),
                project_id: caller.project.id.clone(),
                live: caller.key.live,
                url: new.url.clone(),
                description: new.description.clone(),
                events: new.events.clone(),
                tokens: new.filters.token.clone(),
                handles: new.filters.handle.clone(),
                chains: new.filters.chain.clone(),
                status: v1::WebhookStatus::Enabled.into(),
                secret: sealed.clone(),
                secret_prefix: secret.chars().take(SECRET_PREFIX).collect(),
                created_at: call.now_ms,
                updated_at: call.now_ms,
                ..Webhook::default()
            };
            Ok((vec![ControlChange::Webhook(webhook.clone())], Arc::new(webhook)))
        })
        .await?;
    let secret = signing_secret(core, &webhook)?;
    Ok((webhook, secret))
}

/// Decrypts the signing secret of a webhook, for signing and for the response to its creation.
///
/// # Errors
/// Fails if it was encrypted with another secret key.
pub fn signing_secret(core: &Core, webhook: &Webhook) -> Result<String> {
    let plain = core.shared.keys.open(SealPurpose::WebhookSecret(&webhook.id), &webhook.secret);
    let secret = plain.and_then(|plain| String::from_utf8(plain).ok());
    secret.ok_or_else(|| Error::internal(format!("the secret of {} cannot be decrypted", webhook.id)))
}
