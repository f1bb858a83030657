//! Lists the keys of a project, newest first, each with its last use; revoked ones too.

use thesis_proto::{time::from_millis, v1};

use crate::{
    access::rights,
    convert,
    domain::account::{Actor, Role},
    error::Result,
    service::Core,
    tables::key_usage,
};

pub async fn list_keys(core: &Core, actor: &Actor, message: &v1::ListKeysRequest) -> Result<v1::ListKeysResponse> {
    core.shared.control.refresh().await?;
    rights::project(&core.shared.control.state(), actor, &message.project_id, Role::Viewer)?;
    let uses = key_usage::last_uses(&core.shared.backend, &message.project_id).await?;
    let state = core.shared.control.state();
    let mut rows: Vec<_> = state.keys().filter(|row| row.project_id == message.project_id).collect();
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let data = rows.into_iter().map(|row| v1::ApiKey {
        last_used_at: uses.get(&row.id).copied().map(from_millis),
        ..convert::control::api_key(row)
    });
    Ok(v1::ListKeysResponse { data: data.collect() })
}
