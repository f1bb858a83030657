//! Reads a webhook.

use std::sync::Arc;

use thesis_proto::error::ErrorCode;

use super::Core;
use crate::{
    access::gate::Caller,
    domain::control::Webhook,
    error::{Error, Result},
};

pub(super) fn not_found() -> Error {
    Error::new(ErrorCode::WebhookNotFound, "there is no such webhook")
}

/// Reads a webhook of the caller's project and environment.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, or when the store does not answer.
pub async fn get_webhook(core: &Core, caller: &Caller, id: &str) -> Result<Arc<Webhook>> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    let found = state.webhooks(&caller.project.id, caller.key.live).find(|webhook| webhook.id == id);
    found.cloned().ok_or_else(not_found)
}
