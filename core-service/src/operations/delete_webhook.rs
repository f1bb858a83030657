//! Deletes a webhook of the caller's project and environment. Fails with `WEBHOOK_NOT_FOUND`.

use thesis_proto::v1;

use super::get_webhook::own_webhook;
use crate::{access::gate::Call, control::ControlState, domain::control::ControlChange, error::Result, service::Core};

pub async fn delete_webhook(
    core: &Core,
    call: &Call,
    message: v1::DeleteWebhookRequest,
) -> Result<v1::DeleteWebhookResponse> {
    call.charge().await?;
    let delete = |state: &ControlState| {
        own_webhook(state, &call.caller, &message.id)?;
        call.demand_right(state)?;
        Ok((vec![ControlChange::WebhookDeleted(message.id.clone())], ()))
    };
    core.shared.control.change(call.actor().does("webhook.deleted"), delete).await?;
    Ok(v1::DeleteWebhookResponse { id: message.id })
}
