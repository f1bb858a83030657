//! Revokes an API key, immediately and on all cores. Repeating it changes nothing.

use std::sync::Arc;

use thesis_proto::v1;

use crate::{
    access::rights,
    control::ControlState,
    convert,
    domain::{
        account::{Actor, Role},
        control::{ApiKey, ControlChange},
    },
    error::Result,
    service::Core,
};

pub async fn revoke_key(core: &Core, actor: &Actor, message: &v1::RevokeKeyRequest) -> Result<v1::RevokeKeyResponse> {
    let now = core.shared.clock.now_ms();
    let revoke = |state: &ControlState| {
        let key = rights::key(state, actor, &message.id, Role::Developer)?;
        if key.revoked_at.is_some() {
            return Ok((Vec::new(), Arc::clone(key)));
        }
        let revoked = ApiKey { revoked_at: Some(now), ..ApiKey::clone(key) };
        Ok((vec![ControlChange::ApiKey(revoked.clone())], Arc::new(revoked)))
    };
    let revoked = core.shared.control.change(actor.does("key.revoked"), revoke).await?;
    Ok(v1::RevokeKeyResponse { api_key: Some(convert::control::api_key(&revoked)) })
}
