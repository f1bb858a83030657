//! The rights of people. Each call is decided here, on the same state as its change. Members do not learn whether
//! another organization exists; operators get the command that lists the existing ones.

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use thesis_proto::error::ErrorCode;

use crate::{
    control::ControlState,
    domain::{
        account::{Actor, Invitation, Member, Role},
        control::{ApiKey, Organization, Project},
        id_kind,
    },
    error::{Error, Result},
};

pub fn no_organization() -> Error {
    let text = "there is no such organization, or you are no member of it; choose one of yours";
    Error::new(ErrorCode::OrganizationNotFound, text)
}

pub fn no_project() -> Error {
    Error::new(ErrorCode::ProjectNotFound, "there is no such project, or you are no member of it; choose one of yours")
}

pub fn no_member() -> Error {
    Error::new(ErrorCode::MemberNotFound, "there is no such member; list those of the organization")
}

fn no_invitation() -> Error {
    Error::new(ErrorCode::InvitationNotFound, "there is no such invitation; list those of the organization")
}

fn no_key() -> Error {
    Error::new(ErrorCode::KeyNotFound, "there is no such key; list those of the project")
}

/// The error for an unknown object, in the form for members or for operators.
fn unknown(actor: &Actor, code: ErrorCode, id: &str, to_member: fn() -> Error) -> Error {
    if actor.is_member { to_member() } else { id_kind::unknown_to_operator(code, id).into() }
}

fn has_role(state: &ControlState, actor: &Actor, organization_id: &str, required: Role) -> Option<Result<()>> {
    if !actor.is_member {
        return Some(Ok(()));
    }
    let member = state.people().member(organization_id, &actor.id)?;
    Some(demand_second_factor(state, actor, organization_id).and_then(|()| demand_role(member.role(), required)))
}

/// The error for a member without the second factor that the organization requires.
pub fn no_second_factor() -> Error {
    let text = "this organization demands a second factor; add one to your account first";
    Error::new(ErrorCode::SecondFactorRequired, text)
}

/// True if a user has a second factor.
pub fn has_second_factor(state: &ControlState, user_id: &str) -> bool {
    state.people().user(user_id).is_some_and(|user| user.second_factor)
}

fn demand_second_factor(state: &ControlState, actor: &Actor, organization_id: &str) -> Result<()> {
    let is_required = state.organization(organization_id).is_some_and(|row| row.requires_second_factor);
    if is_required && !has_second_factor(state, &actor.id) { Err(no_second_factor()) } else { Ok(()) }
}

pub fn demand_role(role: Role, required: Role) -> Result<()> {
    if role >= required {
        return Ok(());
    }
    let needed = match required {
        Role::Viewer => "a member",
        Role::Developer => "a developer or an owner",
        Role::Owner => "an owner",
    };
    let text = format!("only {needed} of the organization may do this; ask an owner for the role");
    Err(Error::new(ErrorCode::InsufficientRole, text))
}

/// An organization in which the actor has the required role.
pub fn organization<'a>(
    state: &'a ControlState,
    actor: &Actor,
    id: &str,
    required: Role,
) -> Result<&'a Arc<Organization>> {
    let unknown = || unknown(actor, ErrorCode::OrganizationNotFound, id, no_organization);
    let found = state.organization(id).ok_or_else(unknown)?;
    has_role(state, actor, id, required).ok_or_else(no_organization)??;
    Ok(found)
}

/// A project of an organization in which the actor has the required role.
pub fn project<'a>(state: &'a ControlState, actor: &Actor, id: &str, required: Role) -> Result<&'a Arc<Project>> {
    let unknown = || unknown(actor, ErrorCode::ProjectNotFound, id, no_project);
    let found = state.project(id).ok_or_else(unknown)?;
    has_role(state, actor, &found.organization_id, required).ok_or_else(no_project)??;
    Ok(found)
}

pub fn key<'a>(state: &'a ControlState, actor: &Actor, id: &str, required: Role) -> Result<&'a Arc<ApiKey>> {
    let unknown = || unknown(actor, ErrorCode::KeyNotFound, id, no_key);
    let found = state.key(id).ok_or_else(unknown)?;
    let organization = state.project(&found.project_id).map(|project| &*project.organization_id).unwrap_or_default();
    has_role(state, actor, organization, required).ok_or_else(no_key)??;
    Ok(found)
}

pub fn invitation<'a>(state: &'a ControlState, actor: &Actor, id: &str, required: Role) -> Result<&'a Arc<Invitation>> {
    let found = state.people().invitation(id).ok_or_else(no_invitation)?;
    let organization = found.organization_id.as_deref().unwrap_or_default();
    has_role(state, actor, organization, required).ok_or_else(no_invitation)??;
    Ok(found)
}

pub fn email_not_confirmed() -> Error {
    let text =
        "your e-mail is not confirmed; open the link in the letter that confirms it, or ask the operator to do so";
    Error::new(ErrorCode::EmailNotConfirmed, text)
}

/// Refuses a member whose e-mail is not confirmed.
pub fn demand_confirmed(state: &ControlState, actor: &Actor) -> Result<()> {
    if !actor.is_member || state.people().user(&actor.id).is_some_and(|user| user.is_confirmed()) {
        return Ok(());
    }
    Err(email_not_confirmed())
}

/// Refuses a change of an archived project.
pub fn demand_in_use(project: &Project) -> Result<()> {
    if project.archived {
        return Err(Error::new(ErrorCode::ProjectArchived, "this project is archived; create another one"));
    }
    Ok(())
}

/// Refuses a change that would leave an organization without an owner.
pub fn demand_other_owner(state: &ControlState, member: &Member) -> Result<()> {
    if member.role() == Role::Owner && !state.people().has_other_owner(&member.organization_id, &member.user_id) {
        let text = "an organization keeps an owner; make another member an owner first";
        return Err(Error::new(ErrorCode::LastOwner, text));
    }
    Ok(())
}

/// Refuses a change that is based on an older revision.
pub fn demand_revision(given: Option<u64>, present: u64) -> Result<()> {
    if given.is_some_and(|given| given != present) {
        return Err(Error::changed_concurrently());
    }
    Ok(())
}
