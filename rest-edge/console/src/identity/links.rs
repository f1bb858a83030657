//! One-time links: the set-up of the service, invitations, new passwords, the confirmation of an e-mail.

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::v1::{self, LinkPurpose, Role};
use tonic::Status;

use super::sign_in::start_or_challenge;
use crate::{
    HOME, Page,
    failure::{Failed, see_other, sign_in_path},
    form::{Faults, Posted},
    view::{Layout, Moment, moment, render},
    visit::{SignedIn, Visit},
};

/// Text of a password link for an account whose e-mail was never confirmed.
const TAKEOVER: &str = "Choose a new password. Everywhere else you are signed out with it. Nobody ever confirmed the e-mail \
                        of this account, so somebody else may have signed up with it: with the new password the \
                        account leaves all its organizations, and its second factors end. If you signed up \
                        yourself, ask the operator to confirm your e-mail first.";

#[derive(Template)]
#[template(path = "link.html")]
struct LinkPage {
    layout: Layout,
    faults: Faults,
    /// The effect of the link, as a text.
    text: String,
    /// The e-mail that the link names; empty if it names none.
    invited: String,
    /// The e-mail of the link's user, if core knows it.
    email: Option<String>,
    typed_email: String,
    step: LinkStep,
    /// True for a link that confirms an e-mail.
    is_confirmation: bool,
    sign_in: String,
    expires_at: Option<Moment>,
    button: &'static str,
}

/// The action by which a visitor uses the link.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LinkStep {
    /// A new user, or a user who forgot the password, sets a password.
    Password,
    /// A user who is signed in presses the button.
    Accept,
    /// The e-mail has a user, who must sign in first.
    SignIn,
    /// The page for a visitor who is signed in as somebody other than the invited person.
    SignOut,
}

impl LinkPage {
    fn asks_password(&self) -> bool {
        self.step == LinkStep::Password
    }

    fn asks_sign_in(&self) -> bool {
        self.step == LinkStep::SignIn
    }

    fn is_session_used(&self) -> bool {
        self.step == LinkStep::Accept
    }

    fn asks_sign_out(&self) -> bool {
        self.step == LinkStep::SignOut
    }
}

#[derive(Deserialize)]
pub(super) struct LinkForm {
    email: Option<String>,
    password: Option<String>,
}

/// A link with its visitor.
struct OpenedLink {
    token: String,
    link: v1::GetLinkResponse,
    visit: Visit,
    signed_in: Option<SignedIn>,
}

impl OpenedLink {
    async fn find(visit: Visit, token: String) -> Result<Self, Failed> {
        let request = visit.anonymous(v1::GetLinkRequest { token: token.clone() });
        let link = visit.core().accounts.get_link(request).await?.into_inner();
        let signed_in = match link.purpose() {
            LinkPurpose::PasswordReset => None,
            _ => SignedIn::find(visit.clone()).await?,
        };
        Ok(Self { token, link, visit, signed_in })
    }

    fn path(&self) -> String {
        format!("/console/links/{}", self.token)
    }

    fn step(&self) -> LinkStep {
        match (self.link.purpose(), &self.signed_in) {
            (LinkPurpose::PasswordReset, _) => LinkStep::Password,
            (_, Some(signed_in)) if self.is_for_another(signed_in) => LinkStep::SignOut,
            (_, Some(_)) => LinkStep::Accept,
            (_, None) if self.link.has_account => LinkStep::SignIn,
            (_, None) => LinkStep::Password,
        }
    }

    /// True if the link is for another e-mail than that of the signed-in user.
    fn is_for_another(&self, signed_in: &SignedIn) -> bool {
        let named = self.link.email.as_deref();
        named.is_some_and(|email| email.trim().to_lowercase() != signed_in.email().trim().to_lowercase())
    }

    fn page(&self, faults: Faults, typed_email: String) -> Page {
        let (title, button) = match (self.link.purpose(), self.step()) {
            (LinkPurpose::PasswordReset, _) => ("New password", "Set password"),
            (LinkPurpose::Confirmation, _) => ("Confirm your e-mail", "Confirm e-mail"),
            (LinkPurpose::SetUp, _) => ("Set up the service", "Become administrator"),
            (_, LinkStep::Accept) => ("Invitation", "Accept"),
            _ => ("Invitation", "Create account"),
        };
        let layout = match &self.signed_in {
            Some(signed_in) => Layout::of(signed_in, title, ""),
            None => Layout::visitor(&self.visit, title),
        };
        let signed_in = self.signed_in.as_ref().map(|signed_in| signed_in.email().to_owned());
        let page = LinkPage {
            layout,
            text: self.text(),
            invited: self.link.email.clone().unwrap_or_default(),
            email: signed_in.or_else(|| self.link.email.clone()),
            typed_email,
            step: self.step(),
            is_confirmation: self.link.purpose() == LinkPurpose::Confirmation,
            sign_in: sign_in_path(&self.path()),
            expires_at: self.link.expires_at.as_ref().map(|at| moment(Some(at))),
            button,
            faults,
        };
        render(page.faults.status(), &page)
    }

    fn text(&self) -> String {
        match (self.link.purpose(), &self.link.organization_name) {
            (LinkPurpose::PasswordReset, _) if self.link.ends_memberships => TAKEOVER.to_owned(),
            (LinkPurpose::PasswordReset, _) => {
                "Choose a new password. Everywhere else you are signed out with it.".to_owned()
            }
            (LinkPurpose::Confirmation, _) => {
                "Somebody signed up here with this e-mail. Confirm it only if that was you.".to_owned()
            }
            (LinkPurpose::SetUp, _) => {
                "This link makes the first administrator of this service. It works once.".to_owned()
            }
            (_, Some(name)) => format!("You are invited to the organization {name} as {}.", role(self.link.role())),
            (_, None) => "You are invited to this service.".to_owned(),
        }
    }

    /// The page to open when the link starts no session.
    fn next_page(&self) -> &'static str {
        if self.link.purpose() == LinkPurpose::Confirmation { "/console/account?done=confirmed" } else { HOME }
    }

    /// Uses the link. Returns the session that it started, if any, or the challenge of a user with a second factor.
    async fn accept(&self, form: &LinkForm) -> Result<(Option<v1::NewSession>, String), Status> {
        let user_agent = self.visit.user_agent.clone();
        if self.link.purpose() == LinkPurpose::PasswordReset {
            let password = form.password.clone().unwrap_or_default();
            let request = v1::ResetPasswordRequest { token: self.token.clone(), password, user_agent };
            let answer =
                self.visit.change(self.visit.core().accounts.reset_password(self.visit.anonymous(request))).await?;
            let v1::ResetPasswordResponse { session, challenge } = answer.into_inner();
            return Ok((session, challenge));
        }
        if self.link.purpose() == LinkPurpose::Confirmation {
            let request = v1::ConfirmEmailRequest { token: self.token.clone() };
            self.visit.change(self.visit.core().accounts.confirm_email(self.visit.request(request))).await?;
            return Ok((None, String::new()));
        }
        let mut request = v1::AcceptInvitationRequest {
            token: self.token.clone(),
            email: form.email.clone(),
            password: form.password.clone(),
            user_agent,
        };
        let request = match &self.signed_in {
            Some(signed_in) => {
                (request.email, request.password) = (None, None);
                signed_in.request(request)
            }
            None => self.visit.anonymous(request),
        };
        let session =
            self.visit.change(self.visit.core().accounts.accept_invitation(request)).await?.into_inner().session;
        Ok((session, String::new()))
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Owner => "an owner",
        Role::Developer => "a developer",
        Role::Viewer => "a viewer",
        Role::Unspecified => "a member",
    }
}

pub(super) async fn show(visit: Visit, Path(token): Path<String>) -> Page {
    OpenedLink::find(visit, token).await?.page(Faults::none(), String::new())
}

pub(super) async fn send(visit: Visit, Path(token): Path<String>, Posted(form): Posted<LinkForm>) -> Page {
    let opened = OpenedLink::find(visit, token).await?;
    match opened.accept(&form).await {
        Ok((None, challenge)) if challenge.is_empty() => Ok(see_other(opened.next_page())),
        Ok((session, challenge)) => start_or_challenge(&opened.visit, session.as_ref(), challenge, HOME),
        Err(status) => match Faults::of(&status) {
            Ok(faults) => opened.page(faults, form.email.unwrap_or_default()),
            // The e-mail already has a user.
            Err(Failed::SignIn(_)) => Err(Failed::SignIn(opened.path())),
            Err(failed) => Err(failed),
        },
    }
}
