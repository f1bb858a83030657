//! The request for a link to set a new password.

use askama::Template;
use serde::Deserialize;
use thesis_proto::v1;

use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    page_query::PageQuery,
    view::{Layout, render},
    visit::Visit,
};

/// The text must not reveal whether the user exists.
const DONE: [(&str, &str); 1] = [(
    "asked",
    "If there is a user with this e-mail, a link is on its way. It works for 24 hours. If none arrives, ask an \
     administrator for one.",
)];

#[derive(Template)]
#[template(path = "forgot.html")]
struct ForgotPage {
    layout: Layout,
    faults: Faults,
    email: String,
}

#[derive(Deserialize)]
pub(super) struct ForgotForm {
    email: String,
}

pub(super) async fn show(visit: Visit, query: PageQuery) -> Page {
    let layout = Layout::visitor(&visit, "Forgotten password").with_notice(query.text("done"), &DONE);
    page(layout, Faults::none(), String::new())
}

pub(super) async fn send(visit: Visit, Posted(form): Posted<ForgotForm>) -> Page {
    let request = v1::RequestPasswordResetRequest { email: form.email.clone() };
    match visit.core().accounts.request_password_reset(visit.anonymous(request)).await {
        Ok(_) => Ok(see_other("/console/forgot?done=asked")),
        Err(status) => page(Layout::visitor(&visit, "Forgotten password"), Faults::of(&status)?, form.email),
    }
}

fn page(layout: Layout, faults: Faults, email: String) -> Page {
    render(faults.status(), &ForgotPage { layout, faults, email })
}
