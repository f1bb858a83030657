//! Creates a project.

use super::{limit_reached, name};
use crate::{
    access::rights,
    control::ControlState,
    domain::{
        account::{Actor, MAX_PROJECTS, Role},
        control::{ControlChange, Project},
        id,
    },
    error::Result,
    service::Core,
};

/// Creates a project, not approved for live access. With a `seed` it is created once: later calls with this seed give the
/// same project.
///
/// # Errors
/// 422, `ORGANIZATION_NOT_FOUND`, `INSUFFICIENT_ROLE`, `ACCOUNT_LIMIT_REACHED`, or when the store does not answer.
pub async fn create_project(
    core: &Core,
    actor: &Actor,
    organization_id: &str,
    given: &str,
    seed: Option<&str>,
) -> Result<Project> {
    let project = Project {
        id: id::seeded("prj_", seed, core.shared.ids.as_ref()),
        organization_id: organization_id.to_owned(),
        name: name(given)?,
        created_at: core.shared.clock.now_ms(),
        ..Project::default()
    };
    let make = |state: &ControlState| {
        rights::organization(state, actor, organization_id, Role::Developer)?;
        if let Some(created) = state.project(&project.id) {
            return Ok((Vec::new(), Project::clone(created)));
        }
        let used = state.projects().filter(|row| row.organization_id == organization_id && !row.archived).count();
        if actor.is_member && used >= MAX_PROJECTS {
            return Err(limit_reached(&format!("an organization has at most {MAX_PROJECTS} projects; archive one")));
        }
        Ok((vec![ControlChange::Project(project.clone())], project.clone()))
    };
    core.shared.control.change(actor.does("project.created"), make).await
}
