//! Reads a request of a project's keys from the request log.

use thesis_proto::v1;

use super::list_logged_requests::{environment, scope};
use crate::{
    access::rights, accounts::Person, convert, domain::account::Role, error::Result, operations::admin::time,
    service::Core, tables::request_log,
};

pub async fn get_logged_request(
    core: &Core,
    person: &Person,
    message: &v1::GetLoggedRequestRequest,
) -> Result<v1::GetLoggedRequestResponse> {
    let environment = environment(message.environment())?;
    let at = time("began_at", message.began_at.as_ref())?;
    core.shared.control.refresh().await?;
    rights::project(&core.shared.control.state(), &person.actor, &message.project_id, Role::Viewer)?;
    let scope = scope(&message.project_id, environment);
    let found = request_log::get(&core.shared.backend, &scope, (at, &message.id), person.now_ms).await?;
    Ok(v1::GetLoggedRequestResponse { request: found.map(convert::account::logged_request) })
}
