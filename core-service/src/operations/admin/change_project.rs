//! Approves, refuses, withdraws and archives a project.

#[cfg(test)]
mod tests;

use thesis_proto::{error::ErrorCode, v1};

use super::demand_reason;
use crate::{
    access::rights,
    control::ControlState,
    convert,
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
/// Changes a project, as an action of the audit log. Archiving needs an owner, any other change a developer.
pub async fn change_project(
    core: &Core,
    (actor, action): (&Actor, &str),
    id: &str,
    change: impl Fn(&mut Project) -> Result<()>,
) -> Result<v1::Project> {
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
    let changed = core.shared.control.change(actor.does(action), change).await?;
    Ok(convert::control::project(&changed))
}

/// Approves a project for live keys. After a withdrawal its live webhooks get only events from now on.
pub async fn approve_project(
    core: &Core,
    actor: &Actor,
    message: &v1::ApproveProjectRequest,
) -> Result<v1::ApproveProjectResponse> {
    let live = Dataset::Live.to_string();
    let projected = core.datasets.refresh(&Dataset::Live).await?;
    let head = core.shared.log.head(&live, projected, Consistency::Serial).await?;
    // No event in the log is younger.
    let newest = core.shared.log.get(&live, head).await?.map(|body| decode(head, body)).transpose()?;
    let newest = newest.map_or(0, |entry| entry.created_at);
    let approve = |project: &mut Project| {
        rights::demand_in_use(project)?;
        if !project.live_approved && project.live_cancelled_until > 0 {
            project.live_cancelled_until = project.live_cancelled_until.max(newest);
        }
        project.live_approved = true;
        (project.live_requested_at, project.live_refusal) = (None, None);
        (project.live_withdrawn_at, project.live_withdrawal) = (None, None);
        Ok(())
    };
    let project = change_project(core, (actor, "project.live_approved"), &message.id, approve).await?;
    Ok(v1::ApproveProjectResponse { project: Some(project) })
}

/// Refuses a project that requested live access. Repeating it changes nothing. The reason is kept until the next
/// request.
pub async fn refuse_project(
    core: &Core,
    actor: &Actor,
    message: &v1::RefuseProjectRequest,
) -> Result<v1::RefuseProjectResponse> {
    let reason = &message.reason;
    demand_reason(reason)?;
    let refuse = |project: &mut Project| {
        if project.live_requested_at.is_none() && project.live_refusal.as_ref() != Some(reason) {
            let text = "this project does not ask for live access; look at it again";
            return Err(Error::new(ErrorCode::ChangedMeanwhile, text));
        }
        (project.live_requested_at, project.live_refusal) = (None, Some(reason.clone()));
        (project.live_withdrawn_at, project.live_withdrawal) = (None, None);
        Ok(())
    };
    let project = change_project(core, (actor, "project.live_refused"), &message.id, refuse).await?;
    Ok(v1::RefuseProjectResponse { project: Some(project) })
}

/// Withdraws live access, which cancels every pending live delivery.
pub async fn withdraw_project(
    core: &Core,
    actor: &Actor,
    message: &v1::WithdrawProjectRequest,
) -> Result<v1::WithdrawProjectResponse> {
    let now = core.shared.clock.now_ms();
    let reason = message.reason.as_ref().filter(|reason| !reason.trim().is_empty());
    reason.map_or(Ok(()), |reason| demand_reason(reason))?;
    let withdraw = |project: &mut Project| {
        // No live delivery is created while the project is not approved.
        if std::mem::take(&mut project.live_approved) {
            project.live_cancelled_until = project.live_cancelled_until.max(now);
            (project.live_withdrawn_at, project.live_withdrawal) = (Some(now), reason.cloned());
        }
        Ok(())
    };
    let project = change_project(core, (actor, "project.live_withdrawn"), &message.id, withdraw).await?;
    Ok(v1::WithdrawProjectResponse { project: Some(project) })
}

/// Archives a project, so that its keys stop working.
pub async fn archive_project(
    core: &Core,
    actor: &Actor,
    message: &v1::ArchiveProjectRequest,
) -> Result<v1::ArchiveProjectResponse> {
    let archive = |project: &mut Project| {
        project.archived = true;
        project.live_requested_at = None;
        Ok(())
    };
    let project = change_project(core, (actor, ARCHIVED), &message.id, archive).await?;
    Ok(v1::ArchiveProjectResponse { project: Some(project) })
}
