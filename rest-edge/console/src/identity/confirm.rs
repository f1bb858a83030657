//! Asks for the password or a second factor again, before a sensitive change.

use askama::Template;
use thesis_proto::v1;

use super::{
    factor_form::{FactorChoice, ProofForm},
    safe_next,
};
use crate::{
    HOME, Page,
    failure::see_other,
    form::{Faults, Posted},
    kept::CONFIRM,
    page_query::PageQuery,
    view::{Layout, render},
    visit::SignedIn,
};

#[derive(Template)]
#[template(path = "confirm.html")]
struct ConfirmPage {
    layout: Layout,
    faults: Faults,
    email: String,
    choice: FactorChoice,
    next: String,
    action: &'static str,
}

async fn page(signed_in: &SignedIn, next: &str, faults: Faults) -> Page {
    let request = signed_in.request(v1::BeginConfirmationRequest {});
    let challenge = signed_in.core().accounts.begin_confirmation(request).await?.into_inner().challenge;
    let page = ConfirmPage {
        layout: Layout::of(signed_in, "Confirm that it is you", ""),
        email: signed_in.email().to_owned(),
        choice: FactorChoice::find(&signed_in.visit, challenge).await?,
        next: safe_next(Some(next)).to_owned(),
        action: CONFIRM,
        faults,
    };
    render(page.faults.status(), &page)
}

pub(super) async fn show(signed_in: SignedIn, query: PageQuery) -> Page {
    page(&signed_in, query.single("next")?.unwrap_or(HOME), Faults::none()).await
}

pub(super) async fn send(signed_in: SignedIn, Posted(form): Posted<ProofForm>) -> Page {
    let proof = form.password.is_none().then(|| form.proof());
    let message = v1::ConfirmSessionRequest { password: form.password, challenge: form.challenge, proof };
    match signed_in.change(signed_in.core().accounts.confirm_session(signed_in.request(message))).await {
        Ok(_) => Ok(see_other(safe_next(Some(&form.next)))),
        Err(status) => page(&signed_in, &form.next, Faults::of(&status)?).await,
    }
}
