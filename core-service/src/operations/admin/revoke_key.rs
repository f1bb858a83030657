//! Revokes an API key, immediately and on all cores. Repeating it changes nothing.

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
        let before = rights::key(state, actor, &message.id, Role::Developer)?;
        let revoked = ApiKey { revoked_at: before.revoked_at.or(Some(now)), ..ApiKey::clone(before) };
        let api_key = Some(convert::control::api_key(&revoked));
        let changes = if revoked == **before { Vec::new() } else { vec![ControlChange::ApiKey(revoked)] };
        Ok((changes, v1::RevokeKeyResponse { api_key }))
    };
    core.shared.control.change(actor.does("key.revoked"), revoke).await
}
