//! Sets whether members of an organization need a second factor. Only owners may, and to require it an owner needs one:
//! otherwise nobody could undo it.

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
    service::Core,
};

pub async fn require_second_factor(
    core: &Core,
    person: &Person,
    message: &v1::RequireSecondFactorRequest,
) -> Result<v1::RequireSecondFactorResponse> {
    let required = message.required;
    let change = |state: &ControlState| {
        let before = rights::organization(state, &person.actor, &message.organization_id, Role::Owner)?;
        if required && !rights::has_second_factor(state, &person.user.id) {
            return Err(rights::no_second_factor());
        }
        let mut row = Organization { requires_second_factor: required, ..Organization::clone(before) };
        let is_changed = row != **before;
        row.revision += u64::from(is_changed);
        let organization = Some(convert::control::organization(&row));
        let changes = if is_changed { vec![ControlChange::Organization(row)] } else { Vec::new() };
        Ok((changes, v1::RequireSecondFactorResponse { organization }))
    };
    let action =
        if required { "organization.second_factor_required" } else { "organization.second_factor_not_required" };
    core.shared.control.change(person.actor.does(action), change).await
}
