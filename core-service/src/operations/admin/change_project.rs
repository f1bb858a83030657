//! Approves, withdraws and archives a project.

use super::no_project;
use crate::{
    domain::{
        control::{ControlChange, Project},
        dataset::Dataset,
    },
    error::Result,
    operations::Core,
    shared::control::ControlState,
    store::Consistency,
    tables::log::decode,
};

/// Changes a project.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
async fn change_project(core: &Core, id: &str, change: impl Fn(&mut Project)) -> Result<Project> {
    let change = |state: &ControlState| {
        let mut project = Project::clone(state.project(id).ok_or_else(no_project)?);
        change(&mut project);
        Ok((vec![ControlChange::Project(project.clone())], project))
    };
    core.shared.control.change(change).await
}

/// Lets a project's live keys work. After a withdrawal only events from now on reach its live webhooks.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn approve_project(core: &Core, id: &str) -> Result<Project> {
    let live = Dataset::Live.to_string();
    let head = core.shared.log.head(&live, 0, Consistency::Serial).await?;
    // No event of the log was created later.
    let newest = core.shared.log.get(&live, head).await?.map(decode).transpose()?.map_or(0, |entry| entry.created_at);
    let approve = |project: &mut Project| {
        if !project.live_approved && project.live_cancelled_until > 0 {
            project.live_cancelled_until = project.live_cancelled_until.max(newest);
        }
        project.live_approved = true;
    };
    change_project(core, id, approve).await
}

/// Withdraws live access, which cancels every live delivery that waits.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn withdraw_project(core: &Core, id: &str) -> Result<Project> {
    let now = core.shared.clock.now_ms();
    let withdraw = |project: &mut Project| {
        project.live_approved = false;
        project.live_cancelled_until = project.live_cancelled_until.max(now);
    };
    change_project(core, id, withdraw).await
}

/// Archives a project: its keys work no more.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn archive_project(core: &Core, id: &str) -> Result<Project> {
    change_project(core, id, |project| project.archived = true).await
}
