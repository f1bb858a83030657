//! Renames a project. Developers and owners.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::Person,
    domain::control::Project,
    error::Result,
    operations::admin::{change_project::change_project, name},
    service::Core,
};

pub async fn update_project(
    core: &Core,
    person: &Person,
    message: &v1::UpdateProjectRequest,
) -> Result<v1::UpdateProjectResponse> {
    let name = name(&message.name)?;
    let rename = |project: &mut Project| {
        rights::demand_in_use(project)?;
        rights::demand_revision(message.revision, project.revision)?;
        project.name.clone_from(&name);
        Ok(())
    };
    let project = change_project(core, (&person.actor, "project.renamed"), &message.id, rename).await?;
    Ok(v1::UpdateProjectResponse { project: Some(project) })
}
