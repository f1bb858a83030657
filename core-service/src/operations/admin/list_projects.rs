//! Lists the projects of an organization, or all of them; archived ones too. Members get the newest first.

use thesis_proto::v1;

use crate::{
    access::rights,
    convert,
    domain::account::{Actor, Role},
    error::Result,
    service::Core,
};

pub async fn list_projects(
    core: &Core,
    actor: &Actor,
    message: &v1::ListProjectsRequest,
) -> Result<v1::ListProjectsResponse> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    let of = message.organization_id.as_deref();
    if let Some(id) = of {
        rights::organization(&state, actor, id, Role::Viewer)?;
    }
    let mut rows: Vec<_> = state.projects().filter(|row| of.is_none_or(|id| id == row.organization_id)).collect();
    if actor.is_member {
        rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    }
    Ok(v1::ListProjectsResponse { data: rows.into_iter().map(|row| convert::control::project(row)).collect() })
}
