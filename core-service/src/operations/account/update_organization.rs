//! Renames an organization. Owners only.

use thesis_proto::v1;

use crate::{
    access::rights,
    accounts::Person,
    control::ControlState,
    convert,
    domain::{
        account::Role,
        control::{ControlChange, Organization},
    },
    error::Result,
    operations::admin::name,
    service::Core,
};

pub async fn update_organization(
    core: &Core,
    person: &Person,
    message: &v1::UpdateOrganizationRequest,
) -> Result<v1::UpdateOrganizationResponse> {
    let name = name(&message.name)?;
    let change = |state: &ControlState| {
        let before = rights::organization(state, &person.actor, &message.id, Role::Owner)?;
        rights::demand_revision(message.revision, before.revision)?;
        if before.name == name {
            return Ok((Vec::new(), Organization::clone(before)));
        }
        let revision = before.revision + 1;
        let organization = Organization { name: name.clone(), revision, ..Organization::clone(before) };
        Ok((vec![ControlChange::Organization(organization.clone())], organization))
    };
    let changed = core.shared.control.change(person.actor.does("organization.renamed"), change).await?;
    Ok(v1::UpdateOrganizationResponse { organization: Some(convert::control::organization(&changed)) })
}
