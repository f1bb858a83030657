//! Gives a webhook of the caller's project and environment a new signing secret. Only this response and those of
//! repeated requests have it. The old secret also signs for 24 hours; an older one no longer does. Fails with
//! `WEBHOOK_NOT_FOUND`.

use std::sync::Arc;

use thesis_proto::v1;

use super::{
    create_webhook::{SECRET_PREFIX, signing_secret},
    get_webhook::{own_webhook, shown},
};
use crate::{
    access::gate::Call,
    control::ControlState,
    domain::control::{ControlChange, Webhook},
    error::Result,
    keys::key_ring::SealPurpose,
    service::Core,
};

pub async fn rotate_webhook_secret(
    core: &Core,
    call: &Call,
    message: v1::RotateWebhookSecretRequest,
) -> Result<v1::RotateWebhookSecretResponse> {
    call.charge().await?;
    let perform = async |seed: &str| {
        let secret = core.shared.keys.signing_secret(&format!("{} {seed}", message.id));
        let purpose = SealPurpose::WebhookSecret(&message.id);
        let sealed = core.shared.keys.seal(purpose, secret.as_bytes());
        let rotate = |state: &ControlState| {
            let webhook = own_webhook(state, &call.caller, &message.id)?;
            call.demand_right(state)?;
            // An earlier attempt of this request has rotated the secret.
            if core.shared.keys.open(purpose, &webhook.secret).as_deref() == Some(secret.as_bytes()) {
                return Ok((Vec::new(), Arc::clone(webhook)));
            }
            let rotated = Webhook {
                secret: sealed.clone(),
                secret_prefix: secret.chars().take(SECRET_PREFIX).collect(),
                old_secret: Some(webhook.secret.clone()),
                old_secret_until: call.now_ms + Webhook::GRACE_PERIOD_MS,
                updated_at: webhook.next_update(call.now_ms),
                ..Webhook::clone(webhook)
            };
            Ok((vec![ControlChange::Webhook(rotated.clone())], Arc::new(rotated)))
        };
        let webhook = core.shared.control.change(call.actor().does("webhook.secret_rotated"), rotate).await?;
        let secret = signing_secret(core, &webhook)?;
        Ok(v1::RotateWebhookSecretResponse { webhook: Some(shown(core, &webhook)), secret })
    };
    core.idempotency.once(call, &message, perform).await
}
