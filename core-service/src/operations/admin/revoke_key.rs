//! Revokes an API key.

use std::sync::Arc;

use thesis_proto::error::ErrorCode;

use crate::{
    domain::control::{ApiKey, ControlChange},
    error::{Error, Result},
    operations::Core,
    shared::control::ControlState,
};

/// Revokes a key, at once and everywhere; repeating it changes nothing.
///
/// # Errors
/// `KEY_NOT_FOUND`, or when the store does not answer.
pub async fn revoke_key(core: &Core, id: &str) -> Result<Arc<ApiKey>> {
    let now = core.shared.clock.now_ms();
    let revoke = |state: &ControlState| {
        let key = state.key(id).ok_or_else(|| Error::new(ErrorCode::KeyNotFound, "there is no such key"))?;
        if key.revoked_at.is_some() {
            return Ok((Vec::new(), Arc::clone(key)));
        }
        let mut revoked = ApiKey::clone(key);
        revoked.revoked_at = Some(now);
        Ok((vec![ControlChange::ApiKey(revoked.clone())], Arc::new(revoked)))
    };
    core.shared.control.change(revoke).await
}
