//! Creates and withdraws invitations to an organization.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use serde::Deserialize;
use thesis_proto::v1;

use super::{
    access::{OrganizationAccess, role_name, role_number},
    members::{InvitationForm, MembersState, page},
    members_path,
};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    view::{Layout, render, time},
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
struct InvitedPage<'a> {
    layout: Layout,
    access: OrganizationAccess,
    email: &'a str,
    role: &'static str,
    expires_at: String,
    link: &'a str,
}

/// Shows the link of an invitation when the service sends no mail. No other page shows it.
fn invited(signed_in: &SignedIn, id: &str, invitation: &v1::Invitation, link: &str) -> Page {
    let page = InvitedPage {
        layout: Layout::of(signed_in, "Hand over the invitation", "organizations"),
        access: OrganizationAccess::of(signed_in, id, "members")?,
        email: &invitation.email,
        role: role_name(invitation.role()),
        expires_at: time(invitation.expires_at.as_ref()),
        link,
    };
    render(StatusCode::OK, &page)
}

pub(super) async fn create(signed_in: SignedIn, Path(id): Path<String>, Posted(form): Posted<InvitationForm>) -> Page {
    signed_in.membership(&id)?;
    let message = v1::CreateInvitationRequest {
        organization_id: id.clone(),
        email: form.email.clone(),
        role: role_number(&form.role),
    };
    match signed_in.core().accounts.create_invitation(signed_in.request(message)).await {
        Ok(answer) => match answer.into_inner() {
            v1::CreateInvitationResponse { invitation, link: Some(link) } => {
                invited(&signed_in, &id, &invitation.unwrap_or_default(), &link)
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
    match signed_in.core().accounts.delete_invitation(signed_in.request(message)).await {
        Ok(_) => Ok(see_other(&format!("{}?done=withdrawn", members_path(organization)))),
        Err(status) => page(&signed_in, organization, MembersState::Pressed(Faults::of(&status)?)).await,
    }
}
