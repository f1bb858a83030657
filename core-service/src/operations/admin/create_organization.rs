//! Creates an organization.

use thesis_proto::v1;

use super::{known_plan, limit_reached, name};
use crate::{
    accounts::Person,
    control::ControlState,
    convert,
    domain::{
        account::{Actor, MAX_ORGANIZATIONS, Member, Role},
        control::{ControlChange, Organization},
        id,
    },
    error::Result,
    service::Core,
};

/// Plan of a new organization, if this installation has that plan.
const FIRST_PLAN: &str = "free";

fn new_organization(core: &Core, name: String, plan: String) -> Organization {
    let (id, created_at) = (id::random("org_", core.shared.ids.as_ref()), core.shared.clock.now_ms());
    Organization { id, name, plan, created_at, ..Organization::default() }
}

/// Returns the plan of an organization that a person creates: `free`, or the one with the fewest requests.
fn first_plan(core: &Core) -> String {
    let plans = core.gate.plans();
    let fewest = || plans.iter().min_by_key(|(_, plan)| plan.requests_per_month).map(|(name, _)| name.clone());
    let free = plans.contains_key(FIRST_PLAN).then(|| FIRST_PLAN.to_owned());
    free.or_else(fewest).unwrap_or_else(|| FIRST_PLAN.to_owned())
}

/// Builds a new organization with its founder as owner.
pub(in crate::operations) fn founded(core: &Core, name: &str, user_id: &str) -> (Organization, Member) {
    let organization = new_organization(core, name.trim().to_owned(), first_plan(core));
    let owner = Member {
        organization_id: organization.id.clone(),
        user_id: user_id.to_owned(),
        role: Role::Owner.into(),
        created_at: organization.created_at,
        revision: 0,
        founder: true,
    };
    (organization, owner)
}

/// Creates an organization without members.
pub async fn create_organization(
    core: &Core,
    actor: &Actor,
    message: &v1::CreateOrganizationRequest,
) -> Result<v1::CreateOrganizationResponse> {
    let name = name(&message.name)?;
    let plan = known_plan(core, message.plan.as_deref().unwrap_or(FIRST_PLAN))?;
    let organization = new_organization(core, name, plan);
    let create = |_: &_| Ok((vec![ControlChange::Organization(organization.clone())], ()));
    core.shared.control.change(actor.does("organization.created"), create).await?;
    Ok(v1::CreateOrganizationResponse { organization: Some(convert::control::organization(&organization)) })
}

/// Creates an organization that the person owns.
pub async fn found_organization(
    core: &Core,
    person: &Person,
    message: &v1::AccountServiceCreateOrganizationRequest,
) -> Result<v1::AccountServiceCreateOrganizationResponse> {
    let (organization, owner) = founded(core, &name(&message.name)?, &person.user.id);
    let create = |state: &ControlState| {
        let founded = state.people().memberships(&person.user.id).filter(|member| member.founder).count();
        if founded >= MAX_ORGANIZATIONS {
            let rule = format!(
                "a user creates at most {MAX_ORGANIZATIONS} organizations; make another member the owner of one, then leave it"
            );
            return Err(limit_reached(&rule));
        }
        Ok((vec![ControlChange::Organization(organization.clone()), ControlChange::Member(owner.clone())], ()))
    };
    core.shared.control.change(person.actor.does("organization.created"), create).await?;
    let organization = Some(convert::control::organization(&organization));
    Ok(v1::AccountServiceCreateOrganizationResponse { organization })
}
