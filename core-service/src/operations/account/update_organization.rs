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
        let mut row = Organization { name: name.clone(), ..Organization::clone(before) };
        let is_changed = row != **before;
        row.revision += u64::from(is_changed);
        let organization = Some(convert::control::organization(&row));
        let changes = if is_changed { vec![ControlChange::Organization(row)] } else { Vec::new() };
        Ok((changes, v1::UpdateOrganizationResponse { organization }))
    };
    core.shared.control.change(person.actor.does("organization.renamed"), change).await
}
