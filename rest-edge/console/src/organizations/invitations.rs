//! Creates and withdraws invitations to an organization.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use thesis_proto::{
    time::{from_millis, to_millis},
    v1,
};

use super::{
    access::{OrganizationAccess, role_name, role_number},
    invitations_path,
    members::{InvitationForm, MembersState, page},
    members_path,
};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    shown,
    view::{Layout, Moment, moment, render},
    visit::SignedIn,
};

#[derive(Deserialize)]
pub(super) struct WithdrawalForm {
    /// The id of the organization whose page has the form.
    #[serde(default)]
    organization: String,
}

#[derive(Template)]
#[template(path = "organization_invited.html")]
struct InvitedPage {
    layout: Layout,
    access: OrganizationAccess,
    email: String,
    role: String,
    expires_at: Moment,
    link: String,
}

/// The link of an invitation, which the form passes to the page that shows it.
#[derive(Serialize, Deserialize)]
struct CreatedInvitation {
    email: String,
    role: String,
    /// Unix milliseconds.
    expires_at: Option<i64>,
    link: String,
}

/// Redirects to the page with the link of an invitation, when the service sends no mail.
fn invited(signed_in: &SignedIn, id: &str, invitation: v1::Invitation, link: String) -> Page {
    let (role, expires_at) = (role_name(invitation.role()).to_owned(), invitation.expires_at.as_ref().map(to_millis));
    let created = CreatedInvitation { email: invitation.email, role, expires_at, link };
    shown::show(&signed_in.visit, &format!("{}/created", invitations_path(id)), &created)
}

/// Shows the link of an invitation for ten minutes after its creation. No other page shows it.
pub(super) async fn created(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    let access = OrganizationAccess::of(&signed_in, &id)?;
    let Some(created) = shown::read::<CreatedInvitation>(&signed_in.visit) else {
        return Ok(see_other(&members_path(&id)));
    };
    let CreatedInvitation { email, role, expires_at, link } = created;
    let layout = Layout::of(&signed_in, "Hand over the invitation", "organizations");
    let expires_at = moment(expires_at.map(from_millis).as_ref());
    render(StatusCode::OK, &InvitedPage { layout, access, email, role, expires_at, link })
}

pub(super) async fn create(signed_in: SignedIn, Path(id): Path<String>, Posted(form): Posted<InvitationForm>) -> Page {
    signed_in.membership(&id)?;
    let message = v1::CreateInvitationRequest {
        organization_id: id.clone(),
        email: form.email.clone(),
        role: role_number(&form.role),
    };
    match signed_in.change(signed_in.core().accounts.create_invitation(signed_in.request(message))).await {
        Ok(answer) => match answer.into_inner() {
            v1::CreateInvitationResponse { invitation, link: Some(link) } => {
                invited(&signed_in, &id, invitation.unwrap_or_default(), link)
            }
            _ => Ok(see_other(&format!("{}?done=invited", members_path(&id)))),
        },
        Err(status) => page(&signed_in, &id, MembersState::Inviting(&form, Faults::of(&status)?)).await,
    }
}

pub(super) async fn delete(signed_in: SignedIn, Path(id): Path<String>, Posted(form): Posted<WithdrawalForm>) -> Page {
    let organization = &form.organization;
    signed_in.membership(organization)?;
    let message = v1::DeleteInvitationRequest { id };
    match signed_in.change(signed_in.core().accounts.delete_invitation(signed_in.request(message))).await {
        Ok(_) => Ok(see_other(&format!("{}?done=withdrawn", members_path(organization)))),
        Err(status) => page(&signed_in, organization, MembersState::Pressed(Faults::of(&status)?)).await,
    }
}
