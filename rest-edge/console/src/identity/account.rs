//! The user's own account: password, sessions and devices.

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};

use super::{end_session, start_session};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    view::{Layout, render},
    visit::SignedIn,
};

const DONE: [(&str, &str); 5] = [
    ("confirmed", "Your e-mail is confirmed."),
    ("sent", "A link is on its way. It works for 24 hours."),
    ("password", "The password is changed. Everywhere else you are signed out."),
    ("revoked", "The session is revoked."),
    ("forgotten", "The device is forgotten."),
];

#[derive(Template)]
#[template(path = "account.html")]
struct AccountPage {
    layout: Layout,
    faults: Faults,
    email: String,
    has_factor: bool,
    sessions: Vec<v1::Session>,
    devices: Vec<v1::Device>,
}

#[derive(Deserialize)]
pub(super) struct PasswordForm {
    current_password: String,
    password: String,
}

pub(super) async fn show(signed_in: SignedIn, query: PageQuery) -> Page {
    page(&signed_in, Faults::none(), query.text("done")).await
}

pub(super) async fn change_password(signed_in: SignedIn, Posted(form): Posted<PasswordForm>) -> Page {
    let request = v1::ChangePasswordRequest {
        current_password: form.current_password,
        password: form.password,
        user_agent: signed_in.visit.user_agent.clone(),
    };
    match signed_in.change(signed_in.core().accounts.change_password(signed_in.request(request))).await {
        Ok(answer) => {
            start_session(&signed_in.visit, answer.into_inner().session.as_ref(), "/console/account?done=password")
        }
        Err(status) => page(&signed_in, Faults::of(&status)?, "").await,
    }
}

/// Sends the confirmation link again.
pub(super) async fn send_confirmation(signed_in: SignedIn, Posted(NoFields {}): Posted<NoFields>) -> Page {
    signed_in
        .change(signed_in.core().accounts.send_confirmation(signed_in.request(v1::SendConfirmationRequest {})))
        .await?;
    Ok(see_other("/console/account?done=sent"))
}

/// Redirects a reload of a form that failed to the page with the form.
pub(super) async fn to_account(_: SignedIn) -> Page {
    Ok(see_other("/console/account"))
}

pub(super) async fn revoke(signed_in: SignedIn, Path(id): Path<String>, Posted(NoFields {}): Posted<NoFields>) -> Page {
    let is_own = signed_in.account.session.as_ref().is_some_and(|session| session.id == id);
    let revoked = signed_in
        .change(signed_in.core().accounts.revoke_session(signed_in.request(v1::RevokeSessionRequest { id })))
        .await;
    // A session that has already ended counts as success.
    if let Err(status) = revoked
        && ApiError::from_status(&status).code != ErrorCode::SessionNotFound
    {
        return Err(status.into());
    }
    if is_own {
        return Ok(end_session(&signed_in.visit, "/console/sign-in?done=ended"));
    }
    Ok(see_other("/console/account?done=revoked"))
}

pub(super) async fn forget(signed_in: SignedIn, Path(id): Path<String>, Posted(NoFields {}): Posted<NoFields>) -> Page {
    signed_in
        .change(signed_in.core().accounts.forget_device(signed_in.request(v1::ForgetDeviceRequest { id })))
        .await?;
    Ok(see_other("/console/account?done=forgotten"))
}

async fn page(signed_in: &SignedIn, faults: Faults, done: &str) -> Page {
    let sessions = signed_in.core().accounts.list_sessions(signed_in.request(v1::ListSessionsRequest {})).await?;
    let devices = signed_in.core().accounts.list_devices(signed_in.request(v1::ListDevicesRequest {})).await?;
    let page = AccountPage {
        layout: Layout::of(signed_in, "Account", "account").with_notice(done, &DONE),
        email: signed_in.email().to_owned(),
        has_factor: signed_in.account.user.as_ref().is_some_and(|user| user.second_factor),
        sessions: sessions.into_inner().data,
        devices: devices.into_inner().data,
        faults,
    };
    render(page.faults.status(), &page)
}
