//! Approves, refuses, withdraws and archives a project.

use thesis_proto::error::ErrorCode;

use super::invalid;
use crate::{
    access::rights,
    control::ControlState,
    domain::{
        account::{Actor, Role},
        control::{ControlChange, Project},
        dataset::Dataset,
    },
    error::{Error, Result},
    service::Core,
    store::Consistency,
    tables::log::decode,
};

/// Action of the audit log.
const ARCHIVED: &str = "project.archived";
/// Length limit of the reason of a refusal, in characters.
const MAX_REASON: usize = 500;

/// Changes a project, as an action of the audit log.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, `INSUFFICIENT_ROLE`, those of `change`, or when the store does not answer.
pub async fn change_project(
    core: &Core,
    (actor, action): (&Actor, &str),
    id: &str,
    change: impl Fn(&mut Project) -> Result<()>,
) -> Result<Project> {
    let min_role = if action == ARCHIVED { Role::Owner } else { Role::Developer };
    let change = |state: &ControlState| {
        let before = rights::project(state, actor, id, min_role)?;
        let mut project = Project::clone(before);
        change(&mut project)?;
        if project == **before {
            return Ok((Vec::new(), project));
        }
        project.revision += 1;
        Ok((vec![ControlChange::Project(project.clone())], project))
    };
    core.shared.control.change(actor.does(action), change).await
}

/// Approves a project for live keys. After a withdrawal its live webhooks get only events from now on.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn approve_project(core: &Core, actor: &Actor, id: &str) -> Result<Project> {
    let live = Dataset::Live.to_string();
    let projected = core.datasets.refresh(&Dataset::Live).await?;
    let head = core.shared.log.head(&live, projected, Consistency::Serial).await?;
    // No event in the log is younger.
    let newest = core.shared.log.get(&live, head).await?.map(decode).transpose()?.map_or(0, |entry| entry.created_at);
    let approve = |project: &mut Project| {
        rights::demand_in_use(project)?;
        if !project.live_approved && project.live_cancelled_until > 0 {
            project.live_cancelled_until = project.live_cancelled_until.max(newest);
        }
        project.live_approved = true;
        (project.live_requested_at, project.live_refusal) = (None, None);
        Ok(())
    };
    change_project(core, (actor, "project.live_approved"), id, approve).await
}

/// Refuses a project that requested live access. Repeating it changes nothing. The reason is kept until the next
/// request.
///
/// # Errors
/// 422, `PROJECT_NOT_FOUND`, `CHANGED_MEANWHILE` if the request is no longer open, or if the store does not answer.
pub async fn refuse_project(core: &Core, actor: &Actor, id: &str, reason: &str) -> Result<Project> {
    if reason.trim().is_empty() || reason.chars().count() > MAX_REASON {
        return Err(invalid("reason", &format!("must have 1 to {MAX_REASON} characters")));
    }
    let refuse = |project: &mut Project| {
        if project.live_requested_at.is_none() && project.live_refusal.as_deref() != Some(reason) {
            let text = "this project does not ask for live access; look at it again";
            return Err(Error::new(ErrorCode::ChangedMeanwhile, text));
        }
        (project.live_requested_at, project.live_refusal) = (None, Some(reason.to_owned()));
        Ok(())
    };
    change_project(core, (actor, "project.live_refused"), id, refuse).await
}

/// Withdraws live access, which cancels every pending live delivery.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn withdraw_project(core: &Core, actor: &Actor, id: &str) -> Result<Project> {
    let now = core.shared.clock.now_ms();
    let withdraw = |project: &mut Project| {
        // No live delivery is created while the project is not approved.
        if std::mem::take(&mut project.live_approved) {
            project.live_cancelled_until = project.live_cancelled_until.max(now);
        }
        Ok(())
    };
    change_project(core, (actor, "project.live_withdrawn"), id, withdraw).await
}

/// Archives a project, so that its keys stop working.
///
/// # Errors
/// `PROJECT_NOT_FOUND`, or when the store does not answer.
pub async fn archive_project(core: &Core, actor: &Actor, id: &str) -> Result<Project> {
    let archive = |project: &mut Project| {
        project.archived = true;
        project.live_requested_at = None;
        Ok(())
    };
    change_project(core, (actor, ARCHIVED), id, archive).await
}

#[cfg(test)]
mod tests;
