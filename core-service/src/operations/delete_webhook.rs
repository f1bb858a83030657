//! Deletes a webhook.

use super::get_webhook::own_webhook;
use crate::{access::gate::Call, control::ControlState, domain::control::ControlChange, error::Result, service::Core};

/// Deletes a webhook of the caller's project and environment.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, or when the store does not answer.
pub async fn delete_webhook(core: &Core, call: &Call, id: &str) -> Result<()> {
    let delete = |state: &ControlState| {
        own_webhook(state, &call.caller, id)?;
        call.demand_right(state)?;
        Ok((vec![ControlChange::WebhookDeleted(id.to_owned())], ()))
    };
    core.shared.control.change(call.actor().does("webhook.deleted"), delete).await
}
