//! Requests that an administrator approves a project for live keys. A second request changes nothing, nor does one for
//! an approved project. Only developers and owners with a confirmed e-mail may.

use thesis_proto::v1;

use crate::{
    access::rights, accounts::Person, domain::control::Project, error::Result,
    operations::admin::change_project::change_project, service::Core,
};

pub async fn request_live_access(
    core: &Core,
    person: &Person,
    message: &v1::RequestLiveAccessRequest,
) -> Result<v1::RequestLiveAccessResponse> {
    core.shared.control.refresh().await?;
    // An e-mail stays confirmed, so this check still holds when the change is written.
    rights::demand_confirmed(&core.shared.control.state(), &person.actor)?;
    let ask = |project: &mut Project| {
        rights::demand_in_use(project)?;
        if !project.live_approved && project.live_requested_at.is_none() {
            (project.live_requested_at, project.live_refusal) = (Some(person.now_ms), None);
        }
        Ok(())
    };
    let project = change_project(core, (&person.actor, "project.live_requested"), &message.project_id, ask).await?;
    Ok(v1::RequestLiveAccessResponse { project: Some(project) })
}
