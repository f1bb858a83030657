//! Requests that an administrator approves a project for live keys. A second request changes nothing but the note, and
//! one for an approved project nothing at all. Only developers and owners with a confirmed e-mail may.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::Person,
    domain::control::Project,
    error::Result,
    operations::admin::{change_project::change_project, invalid},
    service::Core,
};

/// Maximum number of characters of the note.
const MAX_NOTE: usize = 1_000;

pub async fn request_live_access(
    core: &Core,
    person: &Person,
    message: &v1::RequestLiveAccessRequest,
) -> Result<v1::RequestLiveAccessResponse> {
    let note = message.note.as_deref().map(str::trim).filter(|note| !note.is_empty()).map(str::to_owned);
    if note.as_ref().is_some_and(|note| note.chars().count() > MAX_NOTE) {
        return Err(invalid("note", &format!("must have at most {MAX_NOTE} characters")));
    }
    core.shared.control.refresh().await?;
    // An e-mail stays confirmed, so this check still holds when the change is written.
    rights::demand_confirmed(&core.shared.control.state(), &person.actor)?;
    let ask = |project: &mut Project| {
        rights::demand_in_use(project)?;
        if project.live_approved {
            return Ok(());
        }
        if project.live_requested_at.is_none() {
            (project.live_requested_at, project.live_refusal) = (Some(person.now_ms), None);
            project.live_note.clone_from(&note);
        } else if note.is_some() {
            project.live_note.clone_from(&note);
        }
        Ok(())
    };
    let project = change_project(core, (&person.actor, "project.live_requested"), &message.project_id, ask).await?;
    Ok(v1::RequestLiveAccessResponse { project: Some(project) })
}
