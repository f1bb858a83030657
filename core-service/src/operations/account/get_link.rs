//! Reads the purpose of a one-time link, without using it.

use std::sync::Arc;

use thesis_proto::{time::from_millis, v1};

use crate::{
    accounts::{
        confirmations::{self, Confirmation},
        resets::{self, no_link},
    },
    control::ControlState,
    domain::account::{Invitation, User},
    error::Result,
    keys::key_ring::KeyRing,
    service::Core,
    store::Consistency,
};

pub(super) enum Link {
    /// The id of an invitation, or of the set-up link.
    Invitation(String),
    Reset(String),
    Confirmation(Confirmation),
}

/// Reads the token of a link, which may have been used.
pub(super) fn read_link(keys: &KeyRing, token: &str) -> Result<Link> {
    let text = keys.read_link(token).ok_or_else(no_link)?;
    if let Some(confirmation) = confirmations::parse(&text) {
        return Ok(Link::Confirmation(confirmation));
    }
    Ok(if text.starts_with("inv_") { Link::Invitation(text) } else { Link::Reset(text) })
}

/// Finds an invitation that a user can accept now. Only the first administrator can use the set-up link.
pub(super) fn open_invitation<'a>(
    state: &'a ControlState,
    id: &str,
    user_id: &str,
    now_ms: i64,
) -> Result<&'a Arc<Invitation>> {
    let people = state.people();
    let found = people.invitation(id).filter(|invitation| invitation.is_open(now_ms)).ok_or_else(no_link)?;
    if found.is_set_up() && people.users().any(|other| other.administrator && other.id != user_id) {
        return Err(no_link());
    }
    Ok(found)
}

pub async fn get_link(core: &Core, _: Option<&str>, message: &v1::GetLinkRequest) -> Result<v1::GetLinkResponse> {
    let shared = &core.shared;
    let link = read_link(&shared.keys, &message.token)?;
    shared.control.refresh().await?;
    let of_user = |purpose: v1::LinkPurpose, user: &User, expires_at, ends_memberships| v1::GetLinkResponse {
        purpose: purpose.into(),
        email: Some(user.email.clone()),
        expires_at: Some(from_millis(expires_at)),
        has_account: true,
        ends_memberships,
        ..v1::GetLinkResponse::default()
    };
    match link {
        Link::Invitation(id) => {
            let state = shared.control.state();
            Ok(invitation(&state, open_invitation(&state, &id, "", shared.clock.now_ms())?))
        }
        Link::Reset(text) => {
            let found = resets::find(shared, &text, Consistency::Quorum).await?;
            let state = shared.control.state();
            let user = state.people().user(&found.user_id).ok_or_else(no_link)?;
            let ends_memberships = resets::ends_memberships(state.people(), user, found.link.keeps_memberships);
            Ok(of_user(v1::LinkPurpose::PasswordReset, user, found.link.expires_at, ends_memberships))
        }
        Link::Confirmation(link) => {
            let user = confirmations::user_of(shared, &shared.control.state(), &link)?;
            Ok(of_user(v1::LinkPurpose::Confirmation, &user, link.expires_at, false))
        }
    }
}

fn invitation(state: &ControlState, row: &Invitation) -> v1::GetLinkResponse {
    let purpose = if row.is_set_up() { v1::LinkPurpose::SetUp } else { v1::LinkPurpose::Invitation };
    let organization = row.organization_id.as_deref().and_then(|id| state.organization(id));
    let role = if organization.is_some() { row.role } else { v1::Role::Unspecified.into() };
    let user = row.email.as_deref().and_then(|email| state.people().user_by_email(email));
    v1::GetLinkResponse {
        purpose: purpose.into(),
        email: row.email.clone(),
        organization_name: organization.map(|organization| organization.name.clone()),
        role,
        expires_at: row.expires_at.map(from_millis),
        has_account: user.is_some(),
        ends_memberships: false,
    }
}
