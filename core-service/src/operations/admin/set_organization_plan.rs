//! Puts an organization on another plan.

use super::known_plan;
use crate::{
    access::rights::no_organization,
    domain::{
        account::Actor,
        control::{ControlChange, Organization},
    },
    error::Result,
    operations::Core,
    shared::control::ControlState,
};

/// Puts an organization on another plan.
///
/// # Errors
/// 422, `ORGANIZATION_NOT_FOUND`, or when the store does not answer.
pub async fn set_organization_plan(core: &Core, actor: &Actor, id: &str, plan: &str) -> Result<Organization> {
    let plan = known_plan(core, plan)?;
    let change = |state: &ControlState| {
        let mut organization = Organization::clone(state.organization(id).ok_or_else(no_organization)?);
        organization.plan.clone_from(&plan);
        organization.revision += 1;
        Ok((vec![ControlChange::Organization(organization.clone())], organization))
    };
    core.shared.control.change(actor.does("organization.plan_changed"), change).await
}
