//! Reads a webhook.

use std::sync::Arc;

use thesis_proto::error::ErrorCode;

use super::missing::missing;
use crate::{
    access::gate::Caller,
    control::ControlState,
    domain::control::Webhook,
    error::{Error, Result},
    service::Core,
};

/// Finds a webhook of the caller's project and environment.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`
pub(super) fn own_webhook<'a>(state: &'a ControlState, caller: &Caller, id: &str) -> Result<&'a Arc<Webhook>> {
    let is_own = |webhook: &&Arc<Webhook>| webhook.project_id == caller.project.id && webhook.live == caller.key.live;
    state.webhook(id).filter(is_own).ok_or_else(|| not_found(id))
}

fn not_found(id: &str) -> Error {
    missing(ErrorCode::WebhookNotFound, id)
}

/// Reads a webhook of the caller's project and environment.
///
/// # Errors
/// `WEBHOOK_NOT_FOUND`, or when the store does not answer.
pub async fn get_webhook(core: &Core, caller: &Caller, id: &str) -> Result<Arc<Webhook>> {
    core.shared.control.refresh().await?;
    own_webhook(&core.shared.control.state(), caller, id).cloned()
}
