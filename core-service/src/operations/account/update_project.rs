//! Renames a project.

use thesis_proto::v1;

use super::update_organization::demand_revision;
use crate::{
    access::rights::demand_in_use,
    accounts::Person,
    convert,
    domain::control::Project,
    error::Result,
    operations::admin::{change_project::change_project, name},
    service::Core,
};

/// Renames a project. Developers and owners.
///
/// # Errors
/// 422, `PROJECT_NOT_FOUND`, `INSUFFICIENT_ROLE`, `PROJECT_ARCHIVED`, `CHANGED_MEANWHILE`, or when the store does not
/// answer.
pub async fn update_project(
    core: &Core,
    person: &Person,
    message: &v1::UpdateProjectRequest,
) -> Result<v1::UpdateProjectResponse> {
    let name = name(&message.name)?;
    let rename = |project: &mut Project| {
        demand_in_use(project)?;
        demand_revision(message.revision, project.revision)?;
        project.name.clone_from(&name);
        Ok(())
    };
    let changed = change_project(core, (&person.actor, "project.renamed"), &message.id, rename).await?;
    Ok(v1::UpdateProjectResponse { project: Some(convert::control::project(&changed)) })
}
