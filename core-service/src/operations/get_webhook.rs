//! Reads a webhook of the caller's project and environment. Fails with `WEBHOOK_NOT_FOUND`.

use std::sync::Arc;

use thesis_proto::{error::ErrorCode, v1};

use super::missing::missing;
use crate::{
    access::gate::{Call, Caller},
    control::ControlState,
    convert,
    domain::control::Webhook,
    error::Result,
    service::Core,
};

/// Finds a webhook of the caller's project and environment.
pub(super) fn own_webhook<'a>(state: &'a ControlState, caller: &Caller, id: &str) -> Result<&'a Arc<Webhook>> {
    let is_own = |webhook: &&Arc<Webhook>| webhook.project_id == caller.project.id && webhook.live == caller.key.live;
    state.webhook(id).filter(is_own).ok_or_else(|| missing(ErrorCode::WebhookNotFound, id))
}

/// Finds a webhook of the caller's project and environment in the newest state.
pub(super) async fn read_webhook(core: &Core, caller: &Caller, id: &str) -> Result<Arc<Webhook>> {
    core.shared.control.refresh().await?;
    own_webhook(&core.shared.control.state(), caller, id).cloned()
}

/// A webhook in a response.
pub fn shown(core: &Core, webhook: &Webhook) -> v1::Webhook {
    convert::control::webhook(webhook, core.shared.keys.webhook_public_key(&webhook.id))
}

pub async fn get_webhook(core: &Core, call: &Call, message: v1::GetWebhookRequest) -> Result<v1::GetWebhookResponse> {
    call.charge().await?;
    let webhook = read_webhook(core, &call.caller, &message.id).await?;
    Ok(v1::GetWebhookResponse { webhook: Some(shown(core, &webhook)) })
}
