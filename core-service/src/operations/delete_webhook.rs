//! Deletes a webhook.

use super::{Core, get_webhook::not_found};
use crate::{access::gate::Caller, domain::control::ControlChange, error::Result, shared::control::ControlState};

/// Deletes a webhook of the caller's project and environment.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, or when the store does not answer.
pub async fn delete_webhook(core: &Core, caller: &Caller, id: &str) -> Result<()> {
    let delete = |state: &ControlState| {
        let mut own = state.webhooks(&caller.project.id, caller.key.live);
        if own.any(|webhook| webhook.id == id) {
            Ok((vec![ControlChange::WebhookDeleted(id.to_owned())], ()))
        } else {
            Err(not_found())
        }
    };
    core.shared.control.change(delete).await
}
