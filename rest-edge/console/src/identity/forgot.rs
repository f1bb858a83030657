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
const DONE: [(&str, &str); 2] = [
    (
        "asked",
        "If there is a user with this e-mail, a link is on its way. It works for 24 hours. If none arrives, ask an \
         administrator for one.",
    ),
    (
        "noted",
        "This installation sends no mail. Ask an administrator for a link, and say who you are: they find your request \
         in the audit log.",
    ),
];

#[derive(Template)]
#[template(path = "forgot.html")]
struct ForgotPage {
    layout: Layout,
    faults: Faults,
    email: String,
    sends_mail: bool,
}

#[derive(Deserialize)]
pub(super) struct ForgotForm {
    email: String,
}

pub(super) async fn show(visit: Visit, query: PageQuery) -> Page {
    let layout = Layout::visitor(&visit, "Forgotten password").with_notice(query.text("done"), &DONE);
    page(&visit, layout, Faults::none(), String::new()).await
}

pub(super) async fn send(visit: Visit, Posted(form): Posted<ForgotForm>) -> Page {
    let request = v1::RequestPasswordResetRequest { email: form.email.clone() };
    match visit.change(visit.core().accounts.request_password_reset(visit.anonymous(request))).await {
        Ok(answer) if answer.get_ref().sends_mail => Ok(see_other("/console/forgot?done=asked")),
        Ok(_) => Ok(see_other("/console/forgot?done=noted")),
        Err(status) => {
            let layout = Layout::visitor(&visit, "Forgotten password");
            page(&visit, layout, Faults::of(&status)?, form.email).await
        }
    }
}

async fn page(visit: &Visit, layout: Layout, faults: Faults, email: String) -> Page {
    let request = visit.anonymous(v1::GetSignInSettingsRequest {});
    let sends_mail = visit.core().accounts.get_sign_in_settings(request).await?.into_inner().sends_mail;
    render(faults.status(), &ForgotPage { layout, faults, email, sends_mail })
}
