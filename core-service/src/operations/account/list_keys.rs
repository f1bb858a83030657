//! Lists the keys of a project.

use thesis_proto::{time::from_millis, v1};

use crate::{
    access::rights, accounts::Person, convert, domain::account::Role, error::Result, service::Core, tables::key_usage,
};

/// Reads the keys of a project, newest first, each with its last use; revoked ones too.
pub async fn keys_of(core: &Core, project_id: &str) -> Result<Vec<v1::ApiKey>> {
    let uses = key_usage::last_uses(&core.shared.backend, project_id).await?;
    let state = core.shared.control.state();
    let mut rows: Vec<_> = state.keys().filter(|row| row.project_id == project_id).collect();
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let shown = rows.into_iter().map(|row| v1::ApiKey {
        last_used_at: uses.get(&row.id).copied().map(from_millis),
        ..convert::control::api_key(row)
    });
    Ok(shown.collect())
}

/// Lists the keys of a project, newest first, each with its last use.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn list_keys(
    core: &Core,
    person: &Person,
    message: &v1::AccountServiceListKeysRequest,
) -> Result<v1::AccountServiceListKeysResponse> {
    core.shared.control.refresh().await?;
    rights::project(&core.shared.control.state(), &person.actor, &message.project_id, Role::Viewer)?;
    Ok(v1::AccountServiceListKeysResponse { data: keys_of(core, &message.project_id).await? })
}
