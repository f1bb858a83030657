//! Reads an organization and the person's role in it.

use thesis_proto::v1;

use crate::{access::rights, accounts::Person, convert, domain::account::Role, error::Result, service::Core};

pub async fn get_organization(
    core: &Core,
    person: &Person,
    message: &v1::GetOrganizationRequest,
) -> Result<v1::GetOrganizationResponse> {
    core.shared.control.refresh().await?;
    let state = core.shared.control.state();
    let organization = rights::organization(&state, &person.actor, &message.id, Role::Viewer)?;
    let member = state.people().member(&message.id, &person.user.id).ok_or_else(rights::no_organization)?;
    Ok(v1::GetOrganizationResponse {
        organization: Some(convert::control::organization(organization)),
        role: member.role,
    })
}
