//! Keeps a form that was not accepted because the session had ended, or because the change needs a confirmation first.
//!
//! The browser keeps the form in a cookie for 15 minutes. After the sign-in or confirmation, a page shows it filled in,
//! with a button that sends it. Passwords, codes, proofs of a passkey and the headers of a webhook are not kept; the
//! page asks for the headers again. A form that is too long for a cookie is lost.

use axum::response::Response;
use http::{Method, header::SET_COOKIE};
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use thesis_proto::error::ErrorCode;

use super::{
    HOME,
    failure::{PageError, SessionEnded, see_other, sign_in_path},
    visit::Visit,
};

/// The page that shows a kept form.
pub(crate) const AGAIN: &str = "/console/again";
/// The page that asks for the password or a factor.
pub(crate) const CONFIRM: &str = "/console/confirm";
/// Lifetime of the cookie, in seconds.
const SECONDS: u32 = 900;
/// Maximum length of a kept form, in bytes: the cookie also carries the user and the path.
const MAX_BODY: usize = 3_000;
/// Form fields that are never kept.
pub(super) const SECRET: [&str; 9] = [
    "csrf",
    "password",
    "current_password",
    "code",
    "recovery_code",
    "credential_id",
    "client_data",
    "authenticator_data",
    "signature",
];

/// The headers of a webhook have values of the customer that no page shows.
pub(crate) const HEADERS: &str = "headers";

/// A form as it was sent.
pub(crate) struct SentForm {
    visit: Visit,
    method: Method,
    body: bytes::Bytes,
}

impl SentForm {
    pub(crate) fn new(visit: Visit, method: &Method, body: &bytes::Bytes) -> Self {
        Self { visit, method: method.clone(), body: body.clone() }
    }

    /// Redirects to the sign-in or the confirmation if the response requires one, and keeps the form until then.
    pub(crate) fn keep(&self, response: Response) -> Response {
        let needs_sign_in = response.extensions().get::<SessionEnded>().is_some();
        let error = response.extensions().get::<PageError>();
        let needs_confirmation = error.is_some_and(|error| error.0.code == ErrorCode::ConfirmationRequired);
        let page = self.visit.path.as_str();
        match (needs_sign_in, needs_confirmation) {
            (_, true) if self.method.is_safe() => see_other(&confirm_path(page)),
            (_, true) => self.kept(confirm_path(AGAIN)).unwrap_or_else(|| see_other(&confirm_path(HOME))),
            (true, _) if !self.method.is_safe() => self.kept(sign_in_path(AGAIN)).unwrap_or(response),
            _ => response,
        }
    }

    /// Redirects with the form in a cookie. None if the form is too long, or does not come from a page of this service.
    fn kept(&self, next: String) -> Option<Response> {
        let fields: Vec<(String, String)> = serde_html_form::from_bytes(&self.body).ok()?;
        let csrf = fields.iter().find(|(name, _)| name == "csrf").map(|(_, value)| value.as_str());
        if !self.visit.is_own || !self.visit.accepts(csrf.unwrap_or_default()) {
            return None;
        }
        let mut fields: Vec<_> = fields.into_iter().filter(|(name, _)| !SECRET.contains(&name.as_str())).collect();
        // The name remains, so that the page asks for them.
        fields.iter_mut().filter(|(name, _)| name == HEADERS).for_each(|(_, value)| value.clear());
        let body = serde_html_form::to_string(&fields).ok().filter(|body| body.len() <= MAX_BODY)?;
        let (user, path) = (self.visit.session_user()?, utf8_percent_encode(&self.visit.path, NON_ALPHANUMERIC));
        let cookies = self.visit.console.cookies();
        let cookie = cookies.set_for(cookies.kept(), &format!("{user}.{path}.{body}"), SECONDS)?;
        let mut response = see_other(&next);
        response.headers_mut().append(SET_COOKIE, cookie);
        Some(response)
    }
}

fn confirm_path(next: &str) -> String {
    format!("{CONFIRM}?next={}", utf8_percent_encode(next, NON_ALPHANUMERIC))
}

/// A form in the visitor's cookie: the id of the user who sent it, its path, and its fields.
pub(crate) struct KeptForm {
    pub(crate) user: String,
    pub(crate) path: String,
    pub(crate) fields: Vec<(String, String)>,
}

impl KeptForm {
    /// Reads the form from the visitor's cookie, if there is one.
    pub(crate) fn read(visit: &Visit) -> Option<Self> {
        let mut parts = visit.kept.as_deref()?.splitn(3, '.');
        let (user, path, body) = (parts.next()?, parts.next()?, parts.next()?);
        let path = percent_decode_str(path).decode_utf8().ok()?.into_owned();
        Some(Self { user: user.to_owned(), path, fields: serde_html_form::from_str(body).ok()? })
    }
}
