//! Accepts an invitation, or the link that creates the first administrator, for the user of the session or for a new
//! user. It may raise a member's role and never lowers it. An invitation that proves the e-mail confirms it.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use thesis_proto::{error::ErrorCode, v1};

use super::{
    get_link::{Link, open_invitation, read_link},
    set_up::withdrawn,
    sign_up::{create_with_password, sign_up_closed},
};
use crate::{
    access::rights,
    accounts::{
        Person,
        fields::{email_fault, password_fault, refuse},
        resets::no_link,
        sessions,
    },
    control::{ControlState, People},
    convert,
    domain::{
        account::{Invitation, Member, Role, User, folded_email},
        control::ControlChange,
        id,
    },
    error::{Error, Result},
    service::Core,
    tables::account::FIRST_GENERATION,
};

pub async fn accept_invitation(
    core: &Core,
    person: Option<&Person>,
    address: Option<&str>,
    message: &v1::AcceptInvitationRequest,
) -> Result<v1::AcceptInvitationResponse> {
    let shared = &core.shared;
    let Link::Invitation(id) = read_link(&shared.keys, &message.token)? else { return Err(no_link()) };
    shared.control.refresh().await?;
    let now_ms = shared.clock.now_ms();
    let user_id = person.map_or("", |person| person.user.id.as_str());
    let invitation = open_invitation(&shared.control.state(), &id, user_id, now_ms).cloned()?;
    let user = match person {
        Some(person) => invited(&invitation, &person.user)?,
        None => new_user(core, &invitation, message)?,
    };
    let actor = person.map_or_else(|| sessions::actor(&user, address), |person| person.actor.clone());
    let action = match &*invitation {
        Invitation { administrator: true, .. } => "user.administrator_made",
        Invitation { organization_id: Some(_), .. } => "member.joined",
        _ => "user.signed_up",
    };
    let accept = |state: &ControlState| Ok((changes(core, state, &id, &user, now_ms)?, ()));
    let change = shared.control.change(actor.does(action), accept);
    let password = message.password.as_deref().unwrap_or_default();
    let session = match person {
        Some(_) => {
            change.await?;
            None
        }
        None => {
            create_with_password(core, &user, address, password, change).await?;
            let user = shared.control.state().people().user(&user.id).cloned().unwrap_or_else(|| Arc::new(user));
            let user_agent = message.user_agent.as_deref();
            Some(sessions::begin(shared, &user, (address, None), user_agent, FIRST_GENERATION).await?)
        }
    };
    let state = shared.control.state();
    let organization = invitation.organization_id.as_deref().and_then(|id| state.organization(id));
    let organization = organization.map(|row| convert::control::organization(row));
    Ok(v1::AcceptInvitationResponse { session, organization })
}

/// The user of a session, if the invitation is for them.
fn invited(invitation: &Invitation, user: &User) -> Result<User> {
    match &invitation.email {
        Some(email) if folded_email(email) != folded_email(&user.email) => {
            let text = "this invitation is for another e-mail than the one you are signed in with; sign out first";
            Err(Error::new(ErrorCode::InsufficientRole, text))
        }
        _ => Ok(user.clone()),
    }
}

fn has_user() -> Error {
    let text = "there is a user with this e-mail already; sign in, then open the link again";
    Error::new(ErrorCode::SignInRequired, text)
}

/// Refuses a new user if the creator of the invitation may not invite new users.
fn demand_open_to_strangers(core: &Core, people: &People, invitation: &Invitation) -> Result<()> {
    let is_by_owner = invitation.organization_id.is_some() && !invitation.is_set_up();
    let creator = people.user(&invitation.creator).map(|user| &**user);
    if is_by_owner && !core.accounts.may_invite_strangers(creator) {
        return Err(sign_up_closed());
    }
    Ok(())
}

/// Builds a new user with the e-mail of the invitation or the one in the request.
fn new_user(core: &Core, invitation: &Invitation, message: &v1::AcceptInvitationRequest) -> Result<User> {
    let shared = &core.shared;
    let email = invitation.email.as_ref().or(message.email.as_ref()).map_or("", |email| email.trim());
    {
        let state = shared.control.state();
        let people = state.people();
        if people.user_by_email(email).is_some() {
            return Err(has_user());
        }
        demand_open_to_strangers(core, people, invitation)?;
    }
    refuse([email_fault("email", email), password_fault("password", message.password.as_deref().unwrap_or_default())])?;
    Ok(User {
        id: id::random("usr_", shared.ids.as_ref()),
        email: email.to_owned(),
        created_at: shared.clock.now_ms(),
        ..User::default()
    })
}

/// Builds the changes of an acceptance.
fn changes(core: &Core, state: &ControlState, id: &str, user: &User, now_ms: i64) -> Result<Vec<ControlChange>> {
    let people = state.people();
    let invitation = open_invitation(state, id, &user.id, now_ms)?;
    if people.user_by_email(&user.email).is_some_and(|other| other.id != user.id) {
        return Err(has_user());
    }
    let mut changes = Vec::new();
    if let Some(organization_id) = &invitation.organization_id {
        let role = Role::try_from(invitation.role).unwrap_or(Role::Viewer);
        match people.member(organization_id, &user.id) {
            Some(member) if member.role() >= role => {}
            Some(member) => {
                let raised = Member { role: role.into(), revision: member.revision + 1, ..Member::clone(member) };
                changes.push(ControlChange::Member(raised));
            }
            None => changes.push(ControlChange::Member(Member {
                organization_id: organization_id.clone(),
                user_id: user.id.clone(),
                role: role.into(),
                created_at: now_ms,
                ..Member::default()
            })),
        }
    }
    let before = people.user(&user.id);
    if before.is_none() {
        demand_open_to_strangers(core, people, invitation)?;
    }
    let mut after = before.map_or_else(|| user.clone(), |before| User::clone(before));
    after.administrator |= invitation.administrator;
    if invitation.proves_email() {
        after = after.confirmed(now_ms);
    } else if before.is_some() && !after.is_confirmed() {
        // The person who signed up with this e-mail may not be the invited person.
        return Err(rights::email_not_confirmed());
    }
    if before.is_none_or(|before| **before != after) {
        changes.push(ControlChange::User(after));
    }
    if invitation.administrator {
        changes.extend(withdrawn(people).filter(|gone| *gone != ControlChange::InvitationGone(id.to_owned())));
    }
    changes.push(ControlChange::InvitationGone(id.to_owned()));
    Ok(changes)
}
