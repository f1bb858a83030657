//! Creates a project, not approved for live access. With a seed it is created once: later calls with this seed return
//! the same project.

use thesis_proto::v1;

use super::{limit_reached, name};
use crate::{
    access::rights,
    control::ControlState,
    convert,
    domain::{
        account::{Actor, MAX_PROJECTS, Role},
        control::{ControlChange, Project},
        id,
    },
    error::Result,
    service::Core,
};

pub async fn create_project(
    core: &Core,
    actor: &Actor,
    message: &v1::CreateProjectRequest,
    seed: Option<&str>,
) -> Result<v1::CreateProjectResponse> {
    let organization_id = &message.organization_id;
    let project = Project {
        id: id::seeded("prj_", seed, core.shared.ids.as_ref()),
        organization_id: organization_id.clone(),
        name: name(&message.name)?,
        created_at: core.shared.clock.now_ms(),
        ..Project::default()
    };
    let create = |state: &ControlState| {
        rights::organization(state, actor, organization_id, Role::Developer)?;
        if let Some(created) = state.project(&project.id) {
            return Ok((Vec::new(), Project::clone(created)));
        }
        let used = state.projects().filter(|row| row.organization_id == *organization_id && !row.archived).count();
        if actor.is_member && used >= MAX_PROJECTS {
            return Err(limit_reached(&format!("an organization has at most {MAX_PROJECTS} projects; archive one")));
        }
        Ok((vec![ControlChange::Project(project.clone())], project.clone()))
    };
    let created = core.shared.control.change(actor.does("project.created"), create).await?;
    Ok(v1::CreateProjectResponse { project: Some(convert::control::project(&created)) })
}
