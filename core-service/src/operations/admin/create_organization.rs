//! Creates an organization.

use super::{known_plan, name};
use crate::{
    domain::{
        account::Actor,
        control::{ControlChange, Organization},
        id,
    },
    error::Result,
    service::Core,
};

/// Creates an organization.
///
/// # Errors
/// 422, or when the store does not answer.
pub async fn create_organization(core: &Core, actor: &Actor, given: &str, plan: Option<&str>) -> Result<Organization> {
    let organization = Organization {
        id: id::random("org_", core.shared.ids.as_ref()),
        name: name(given)?,
        plan: known_plan(core, plan.unwrap_or("free"))?,
        created_at: core.shared.clock.now_ms(),
        revision: 0,
    };
    let make = |_: &_| Ok((vec![ControlChange::Organization(organization.clone())], organization.clone()));
    core.shared.control.change(actor.does("organization.created"), make).await
}
