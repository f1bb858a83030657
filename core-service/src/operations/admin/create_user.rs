//! Invites a user, who needs no organization. It withdraws an earlier invitation of this kind.

use thesis_proto::{time::from_millis, v1};

use crate::{
    accounts::{
        fields::{email_fault, refuse},
        mail::Letter,
    },
    control::ControlState,
    domain::{
        account::{Actor, INVITATION_MS, Invitation, Role, folded_email},
        control::ControlChange,
        id,
    },
    error::Result,
    operations::account::sign_up::email_taken,
    service::Core,
};

pub async fn create_user(
    core: &Core,
    actor: &Actor,
    message: &v1::CreateUserRequest,
) -> Result<v1::CreateUserResponse> {
    refuse([email_fault("email", &message.email)])?;
    let shared = &core.shared;
    let (email, created_at) = (message.email.trim(), shared.clock.now_ms());
    let expires_at = created_at + INVITATION_MS;
    let new = Invitation {
        id: id::random("inv_", shared.ids.as_ref()),
        organization_id: None,
        email: Some(email.to_owned()),
        role: Role::Viewer.into(),
        administrator: message.administrator,
        created_at,
        expires_at: Some(expires_at),
        creator: actor.id.clone(),
        mailed: core.accounts.mail.is_some(),
    };
    let folded = folded_email(email);
    let make = |state: &ControlState| {
        let people = state.people();
        if people.user_by_email(email).is_some() {
            return Err(email_taken());
        }
        let is_replaced = |other: &Invitation| {
            let is_theirs = other.email.as_deref().is_some_and(|email| folded_email(email) == folded);
            is_theirs && other.organization_id.is_none() && other.id != new.id
        };
        let mut changes = vec![ControlChange::Invitation(new.clone())];
        let replaced = people.invitations().filter(|other| is_replaced(other));
        changes.extend(replaced.map(|other| ControlChange::InvitationGone(other.id.clone())));
        Ok((changes, ()))
    };
    shared.control.change(actor.does("user.invited"), make).await?;
    let link = core.accounts.link(&shared.keys.link_token(&new.id));
    if let Some(mail) = &core.accounts.mail {
        mail.post(Letter::welcome(email, &link));
    }
    Ok(v1::CreateUserResponse { id: new.id.clone(), link, expires_at: Some(from_millis(expires_at)) })
}
