//! Creates a project.

use super::{name, no_organization};
use crate::{
    domain::{
        control::{ControlChange, Project},
        id,
    },
    error::Result,
    operations::Core,
    shared::control::ControlState,
};

/// Creates a project, not approved for live access.
///
/// # Errors
/// 422, `ORGANIZATION_NOT_FOUND`, or when the store does not answer.
pub async fn create_project(core: &Core, organization_id: &str, given: &str) -> Result<Project> {
    let project = Project {
        id: id::random("prj_", core.shared.ids.as_ref()),
        organization_id: organization_id.to_owned(),
        name: name(given)?,
        live_approved: false,
        archived: false,
        created_at: core.shared.clock.now_ms(),
        live_cancelled_until: 0,
    };
    let make = |state: &ControlState| {
        state.organization(organization_id).ok_or_else(no_organization)?;
        Ok((vec![ControlChange::Project(project.clone())], project.clone()))
    };
    core.shared.control.change(make).await
}
