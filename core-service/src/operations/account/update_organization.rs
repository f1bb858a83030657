//! Renames an organization.

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
    error::{Error, Result},
    operations::admin::name,
    service::Core,
};

/// Refuses a change that is based on an older revision.
///
/// # Errors
/// `CHANGED_MEANWHILE`
pub(super) fn demand_revision(given: Option<u64>, present: u64) -> Result<()> {
    if given.is_some_and(|given| given != present) {
        return Err(Error::changed_concurrently());
    }
    Ok(())
}

/// Renames an organization. Owners only.
///
/// # Errors
/// 422, `ORGANIZATION_NOT_FOUND`, `INSUFFICIENT_ROLE`, `CHANGED_MEANWHILE`, or when the store does not answer.
pub async fn update_organization(
    core: &Core,
    person: &Person,
    message: &v1::UpdateOrganizationRequest,
) -> Result<v1::UpdateOrganizationResponse> {
    let name = name(&message.name)?;
    let change = |state: &ControlState| {
        let before = rights::organization(state, &person.actor, &message.id, Role::Owner)?;
        demand_revision(message.revision, before.revision)?;
        let mut organization = Organization::clone(before);
        if organization.name == name {
            return Ok((Vec::new(), organization));
        }
        organization.name.clone_from(&name);
        organization.revision += 1;
        Ok((vec![ControlChange::Organization(organization.clone())], organization))
    };
    let changed = core.shared.control.change(person.actor.does("organization.renamed"), change).await?;
    Ok(v1::UpdateOrganizationResponse { organization: Some(convert::control::organization(&changed)) })
}
