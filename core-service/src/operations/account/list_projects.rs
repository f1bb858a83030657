//! Lists the projects of an organization.

use thesis_proto::v1;

use crate::{access::rights, accounts::Person, convert, domain::account::Role, error::Result, service::Core};

/// Lists the projects of an organization, newest first; archived ones too.
///
/// # Errors
/// `ORGANIZATION_NOT_FOUND`, or when the store does not answer.
pub async fn list_projects(
    core: &Core,
    person: &Person,
    message: &v1::AccountServiceListProjectsRequest,
) -> Result<v1::AccountServiceListProjectsResponse> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    rights::organization(&state, &person.actor, &message.organization_id, Role::Viewer)?;
    let mut rows: Vec<_> = state.projects().filter(|row| row.organization_id == message.organization_id).collect();
    rows.sort_unstable_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
    let data = rows.into_iter().map(|row| convert::control::project(row)).collect();
    Ok(v1::AccountServiceListProjectsResponse { data })
}
