//! Sign-in and sign-out.

use askama::Template;
use serde::{Deserialize, Serialize};
use thesis_proto::{error::ErrorCode, v1};

use super::{
    end_session,
    factor_form::{FactorChoice, ProofForm},
    safe_next, start_session,
};
use crate::{
    HOME, Page,
    failure::{Failed, see_other},
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    shown,
    view::{Layout, render},
    visit::Visit,
};

/// The page that asks for a second factor.
pub(super) const FACTOR: &str = "/console/sign-in/factor";

const DONE: [(&str, &str); 3] = [
    ("signed-out", "You are signed out."),
    ("ended", "The session has ended. Sign in to go on."),
    ("over", "That took too long. Sign in again."),
];

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
    match visit.change(visit.core().accounts.sign_in(visit.anonymous(request))).await {
        Ok(answer) => {
            let v1::SignInResponse { session, challenge } = answer.into_inner();
            start_or_challenge(&visit, session.as_ref(), challenge, safe_next(form.next.as_deref()))
        }
        Err(status) => page(Layout::visitor(&visit, "Sign in"), Faults::of(&status)?, form.email, form.next.as_deref()),
    }
}

fn page(layout: Layout, faults: Faults, email: String, next: Option<&str>) -> Page {
    // The home page is the default and needs no parameter.
    let next = Some(safe_next(next)).filter(|next| *next != HOME).unwrap_or_default().to_owned();
    render(faults.status(), &SignInPage { layout, faults, email, next })
}

/// The challenge of a sign-in, and the path to open afterwards.
#[derive(Serialize, Deserialize)]
struct SignInChallenge {
    challenge: String,
    next: String,
}

/// Starts the session, or redirects to the page that asks for a second factor.
pub(super) fn start_or_challenge(
    visit: &Visit,
    session: Option<&v1::NewSession>,
    challenge: String,
    next: &str,
) -> Page {
    if challenge.is_empty() {
        return start_session(visit, session, next);
    }
    shown::show(visit, FACTOR, &SignInChallenge { challenge, next: next.to_owned() })
}

#[derive(Template)]
#[template(path = "sign_in_factor.html")]
struct FactorPage {
    layout: Layout,
    faults: Faults,
    choice: FactorChoice,
    next: String,
    action: &'static str,
}

async fn factor_page(visit: &Visit, challenge: String, next: &str, faults: Faults) -> Page {
    let Ok(choice) = FactorChoice::find(visit, challenge).await else {
        return Ok(see_other("/console/sign-in?done=over"));
    };
    let (layout, next) = (Layout::visitor(visit, "Second factor"), safe_next(Some(next)).to_owned());
    render(faults.status(), &FactorPage { layout, faults, choice, next, action: FACTOR })
}

pub(super) async fn show_factor(visit: Visit) -> Page {
    let Some(SignInChallenge { challenge, next }) = shown::read(&visit) else {
        return Ok(see_other("/console/sign-in?done=over"));
    };
    factor_page(&visit, challenge, &next, Faults::none()).await
}

pub(super) async fn send_factor(visit: Visit, Posted(form): Posted<ProofForm>) -> Page {
    let (challenge, proof) = (form.challenge.clone().unwrap_or_default(), Some(form.proof()));
    let request = v1::FinishSignInRequest {
        challenge: challenge.clone(),
        proof,
        user_agent: visit.user_agent.clone(),
        device: visit.device.clone(),
    };
    match visit.change(visit.core().accounts.finish_sign_in(visit.anonymous(request))).await {
        Ok(answer) => start_session(&visit, answer.into_inner().session.as_ref(), safe_next(Some(&form.next))),
        Err(status) => factor_page(&visit, challenge, &form.next, Faults::of(&status)?).await,
    }
}

pub(super) async fn sign_out(visit: Visit, Posted(NoFields {}): Posted<NoFields>) -> Page {
    if visit.session.is_some()
        && let Err(status) = visit.change(visit.core().accounts.sign_out(visit.request(v1::SignOutRequest {}))).await
        // A session that has already ended counts as success.
        && let Failed::Error(error) = Failed::from(status)
        && error.code != ErrorCode::SessionNotFound
    {
        return Err(Failed::Error(error));
    }
    Ok(end_session(&visit, "/console/sign-in?done=signed-out"))
}
