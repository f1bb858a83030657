//! Sign-in and sign-out.

use askama::Template;
use serde::Deserialize;
use thesis_proto::{error::ErrorCode, v1};

use super::{end_session, safe_next, start_session};
use crate::{
    HOME, Page,
    failure::Failed,
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    view::{Layout, render},
    visit::Visit,
};

const DONE: [(&str, &str); 2] =
    [("signed-out", "You are signed out."), ("ended", "The session has ended. Sign in to go on.")];

#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    layout: Layout,
    faults: Faults,
    email: String,
    next: String,
}

#[derive(Deserialize)]
pub(super) struct SignInForm {
    email: String,
    password: String,
    next: Option<String>,
}

pub(super) async fn show(visit: Visit, query: PageQuery) -> Page {
    let layout = Layout::visitor(&visit, "Sign in").with_notice(query.text("done"), &DONE);
    page(layout, Faults::none(), String::new(), query.single("next")?)
}

pub(super) async fn send(visit: Visit, Posted(form): Posted<SignInForm>) -> Page {
    let request = v1::SignInRequest {
        email: form.email.clone(),
        password: form.password,
        user_agent: visit.user_agent.clone(),
        device: visit.device.clone(),
    };
    match visit.core().accounts.sign_in(visit.anonymous(request)).await {
        Ok(answer) => start_session(&visit, answer.into_inner().session.as_ref(), safe_next(form.next.as_deref())),
        Err(status) => page(Layout::visitor(&visit, "Sign in"), Faults::of(&status)?, form.email, form.next.as_deref()),
    }
}

fn page(layout: Layout, faults: Faults, email: String, next: Option<&str>) -> Page {
    // The home page is the default and needs no parameter.
    let next = Some(safe_next(next)).filter(|next| *next != HOME).unwrap_or_default().to_owned();
    render(faults.status(), &SignInPage { layout, faults, email, next })
}

pub(super) async fn sign_out(visit: Visit, Posted(NoFields {}): Posted<NoFields>) -> Page {
    if visit.session.is_some()
        && let Err(status) = visit.core().accounts.sign_out(visit.request(v1::SignOutRequest {})).await
        // A session that has already ended counts as success.
        && let Failed::Error(error) = Failed::from(status)
        && error.code != ErrorCode::SessionNotFound
    {
        return Err(Failed::Error(error));
    }
    Ok(end_session(&visit, "/console/sign-in?done=signed-out"))
}
