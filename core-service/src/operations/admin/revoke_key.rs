//! Revokes an API key.

use std::sync::Arc;

use crate::{
    access::rights,
    control::ControlState,
    domain::{
        account::{Actor, Role},
        control::{ApiKey, ControlChange},
    },
    error::Result,
    service::Core,
};

/// Revokes a key, immediately and on all cores. Repeating it changes nothing.
///
/// # Errors
/// `KEY_NOT_FOUND`, `INSUFFICIENT_ROLE`, or when the store does not answer.
pub async fn revoke_key(core: &Core, actor: &Actor, id: &str) -> Result<Arc<ApiKey>> {
    let now = core.shared.clock.now_ms();
    let revoke = |state: &ControlState| {
        let key = rights::key(state, actor, id, Role::Developer)?;
        if key.revoked_at.is_some() {
            return Ok((Vec::new(), Arc::clone(key)));
        }
        let mut revoked = ApiKey::clone(key);
        revoked.revoked_at = Some(now);
        Ok((vec![ControlChange::ApiKey(revoked.clone())], Arc::new(revoked)))
    };
    core.shared.control.change(actor.does("key.revoked"), revoke).await
}
