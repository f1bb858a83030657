//! Sign-up: a user and their organization.

use askama::Template;
use serde::Deserialize;
use thesis_proto::v1;

use super::start_session;
use crate::{
    HOME, Page,
    form::{Faults, Posted},
    view::{Layout, render},
    visit::Visit,
};

#[derive(Template)]
#[template(path = "sign_up.html")]
struct SignUpPage {
    layout: Layout,
    faults: Faults,
    email: String,
    organization_name: String,
}

#[derive(Deserialize)]
pub(super) struct SignUpForm {
    email: String,
    password: String,
    organization_name: String,
}

pub(super) async fn show(visit: Visit) -> Page {
    page(&visit, Faults::none(), String::new(), String::new())
}

pub(super) async fn send(visit: Visit, Posted(form): Posted<SignUpForm>) -> Page {
    let request = v1::SignUpRequest {
        email: form.email.clone(),
        password: form.password,
        organization_name: form.organization_name.clone(),
        user_agent: visit.user_agent.clone(),
    };
    match visit.change(visit.core().accounts.sign_up(visit.anonymous(request))).await {
        Ok(answer) => start_session(&visit, answer.into_inner().session.as_ref(), HOME),
        Err(status) => page(&visit, Faults::of(&status)?, form.email, form.organization_name),
    }
}

fn page(visit: &Visit, faults: Faults, email: String, organization_name: String) -> Page {
    let status = faults.status();
    render(status, &SignUpPage { layout: Layout::visitor(visit, "Sign up"), faults, email, organization_name })
}
