//! Creates an organization for a person.

use thesis_proto::v1;

use crate::{
    accounts::Person,
    control::ControlState,
    convert,
    domain::{
        account::{MAX_ORGANIZATIONS, Member, Role},
        control::{ControlChange, Organization},
        id,
    },
    error::Result,
    operations::admin::{limit_reached, name},
    service::Core,
};

/// Plan of an organization that a person creates, if this installation has that plan.
const FIRST_PLAN: &str = "free";

/// Returns the plan of new organizations: `free`, or the one with the fewest requests.
fn first_plan(core: &Core) -> String {
    let plans = core.gate.plans();
    let fewest = || plans.iter().min_by_key(|(_, plan)| plan.requests_per_month).map(|(name, _)| name.clone());
    let free = plans.contains_key(FIRST_PLAN).then(|| FIRST_PLAN.to_owned());
    free.or_else(fewest).unwrap_or_else(|| FIRST_PLAN.to_owned())
}

/// Builds a new organization with its founder as owner.
pub(super) fn founded(core: &Core, name: &str, user_id: &str) -> (Organization, Member) {
    let created_at = core.shared.clock.now_ms();
    let organization = Organization {
        id: id::random("org_", core.shared.ids.as_ref()),
        name: name.trim().to_owned(),
        plan: first_plan(core),
        created_at,
        revision: 0,
    };
    let owner = Member {
        organization_id: organization.id.clone(),
        user_id: user_id.to_owned(),
        role: Role::Owner.into(),
        created_at,
        revision: 0,
        founder: true,
    };
    (organization, owner)
}

/// Creates an organization that the person owns.
///
/// # Errors
/// 422, `ACCOUNT_LIMIT_REACHED`, or when the store does not answer.
pub async fn create_organization(
    core: &Core,
    person: &Person,
    message: &v1::AccountServiceCreateOrganizationRequest,
) -> Result<v1::AccountServiceCreateOrganizationResponse> {
    let (organization, owner) = founded(core, &name(&message.name)?, &person.user.id);
    let make = |state: &ControlState| {
        let founded = state.people().memberships(&person.user.id).filter(|member| member.founder).count();
        if founded >= MAX_ORGANIZATIONS {
            let rule = format!(
                "a user creates at most {MAX_ORGANIZATIONS} organizations; make another member the owner of one, then leave it"
            );
            return Err(limit_reached(&rule));
        }
        Ok((vec![ControlChange::Organization(organization.clone()), ControlChange::Member(owner.clone())], ()))
    };
    core.shared.control.change(person.actor.does("organization.created"), make).await?;
    let organization = Some(convert::control::organization(&organization));
    Ok(v1::AccountServiceCreateOrganizationResponse { organization })
}
