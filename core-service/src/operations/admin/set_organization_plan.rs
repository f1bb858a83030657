//! Puts an organization on another plan.

use thesis_proto::v1;

use super::known_plan;
use crate::{
    access::rights,
    control::ControlState,
    convert,
    domain::{
        account::{Actor, Role},
        control::{ControlChange, Organization},
    },
    error::Result,
    service::Core,
};

pub async fn set_organization_plan(
    core: &Core,
    actor: &Actor,
    message: &v1::SetOrganizationPlanRequest,
) -> Result<v1::SetOrganizationPlanResponse> {
    let plan = known_plan(core, &message.plan)?;
    let change = |state: &ControlState| {
        let before = rights::organization(state, actor, &message.id, Role::Owner)?;
        let revision = before.revision + 1;
        let row = Organization { plan: plan.clone(), revision, ..Organization::clone(before) };
        let organization = Some(convert::control::organization(&row));
        Ok((vec![ControlChange::Organization(row)], v1::SetOrganizationPlanResponse { organization }))
    };
    core.shared.control.change(actor.does("organization.plan_changed"), change).await
}
