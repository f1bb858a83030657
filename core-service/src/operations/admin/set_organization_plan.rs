//! Puts an organization on another plan.

use thesis_proto::error::ErrorCode;

use super::known_plan;
use crate::{
    control::ControlState,
    domain::{
        account::Actor,
        control::{ControlChange, Organization},
        id_kind::unknown_to_operator,
    },
    error::Result,
    service::Core,
};

/// Puts an organization on another plan.
///
/// # Errors
/// 422, `ORGANIZATION_NOT_FOUND`, or when the store does not answer.
pub async fn set_organization_plan(core: &Core, actor: &Actor, id: &str, plan: &str) -> Result<Organization> {
    let plan = known_plan(core, plan)?;
    let change = |state: &ControlState| {
        let unknown = || unknown_to_operator(ErrorCode::OrganizationNotFound, id);
        let mut organization = Organization::clone(state.organization(id).ok_or_else(unknown)?);
        organization.plan.clone_from(&plan);
        organization.revision += 1;
        Ok((vec![ControlChange::Organization(organization.clone())], organization))
    };
    core.shared.control.change(actor.does("organization.plan_changed"), change).await
}
