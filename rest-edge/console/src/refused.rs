//! The page of a form that was refused. The form redirects to its own path, so neither a reload nor the way back sends
//! it again. All other pages that would answer a form are reached so too, such as the chart of an alert.
//!
//! No edge stores the form. It is in a cookie that lasts a minute and that scripts cannot read, compressed and signed
//! for this session and this path, with the error by which core refused it. The form's handler renders the page: it
//! reads the fields of the cookie as a form, and [`Visit::change`] returns the error of the cookie without a call of
//! core. One read ends the cookie. Afterwards the path leads to the page with the form as it was before. The cookie has
//! no values that pages never show again. The page answers a form at once that is too long for a cookie, which has room
//! for 2,800 compressed bytes, and so does the page of a failure of the service: a reload sends the form again, which
//! may then succeed.

use std::io::Read as _;

use axum::response::Response;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use http::{HeaderValue, Method, header::SET_COOKIE};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use thesis_proto::error::{ApiError, ErrorCode};

use super::{
    failure::{PageError, see_other},
    is_page, kept, shown,
    visit::Visit,
};

/// Lifetime of the cookie, in seconds.
const SECONDS: u32 = 60;
/// Maximum size of an uncompressed form in bytes. A form's body has at most 64 KiB, and is up to seven times as long in
/// JSON, where a field with a control character as its name has 14 bytes instead of two.
const MAX_FORM: u64 = 512 * 1024;
const PURPOSE: &[u8] = b"refused form";
/// The token that every form has.
const CSRF: &str = "csrf";

/// A form without its secrets, and the error by which core refused it.
#[derive(Serialize, Deserialize)]
struct RefusedForm {
    fields: Vec<(String, String)>,
    refusal: Option<Refusal>,
}

/// The parts of an error.
#[derive(Serialize, Deserialize)]
struct Refusal {
    code: String,
    message: String,
    param: Option<String>,
    details: Option<Value>,
    retry_after: Option<u32>,
}

impl Refusal {
    fn of(error: &ApiError) -> Self {
        Self {
            code: error.code.as_str().to_owned(),
            message: error.message.clone(),
            param: error.param.clone(),
            details: error.details.as_deref().cloned(),
            retry_after: error.retry_after,
        }
    }

    /// The error; none for the code of another version.
    fn error(self) -> Option<ApiError> {
        let Self { code, message, param, details, retry_after } = self;
        Some(ApiError { code: ErrorCode::parse(&code)?, message, param, details: details.map(Box::new), retry_after })
    }
}

/// Redirects a form that a page answers to that page, be it a page with an error. Other responses stay as they are.
pub(super) fn keep(visit: &Visit, method: &Method, body: &Bytes, response: Response) -> Response {
    let error = response.extensions().get::<PageError>();
    let is_refused = error.is_some_and(|error| error.0.code.http_status() < 500);
    if method.is_safe() || !(is_page(response.headers()) || is_refused) {
        return response;
    }
    match cookie(visit, body) {
        Some(cookie) => {
            let mut response = see_other(&visit.path);
            response.headers_mut().append(SET_COOKIE, cookie);
            response
        }
        None => response,
    }
}

/// The cookie with a form. None if a cookie cannot carry it, if core made its change, or if it does not come from a
/// page of this service.
fn cookie(visit: &Visit, body: &[u8]) -> Option<HeaderValue> {
    let refusal = match visit.outcome() {
        Some(Ok(())) => return None,
        Some(Err(error)) => Some(Refusal::of(error)),
        None => None,
    };
    let mut fields: Vec<(String, String)> = serde_html_form::from_bytes(body).ok()?;
    let csrf = fields.iter().find(|(name, _)| name == CSRF).map(|(_, value)| value.as_str());
    if !visit.is_own || !visit.accepts(csrf.unwrap_or_default()) {
        return None;
    }
    fields.retain(|(name, _)| name != CSRF);
    for (name, value) in &mut fields {
        // The handler still demands the field itself.
        if is_never_shown(name) {
            value.clear();
        }
    }
    let form = RefusedForm { fields, refusal };
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    serde_json::to_writer(&mut encoder, &form).ok()?;
    let text = URL_SAFE_NO_PAD.encode(encoder.finish().ok()?);
    let cookies = visit.console.cookies();
    cookies.set_for(cookies.refused(), &shown::seal(visit, PURPOSE, &visit.path, &text), SECONDS)
}

/// True for a field whose value no page shows again.
fn is_never_shown(name: &str) -> bool {
    name == kept::HEADERS || kept::SECRET.contains(&name)
}

/// The form that the visitor's cookie has for this path: its body, and the visit in which its handler renders the page.
pub(super) fn read(visit: &Visit, method: &Method) -> Option<(Visit, Bytes)> {
    let sealed = visit.refused.as_deref().filter(|_| *method == Method::GET)?;
    let compressed = URL_SAFE_NO_PAD.decode(shown::unseal(visit, PURPOSE, &visit.path, sealed)?).ok()?;
    let mut text = Vec::new();
    DeflateDecoder::new(compressed.as_slice()).take(MAX_FORM).read_to_end(&mut text).ok()?;
    let RefusedForm { mut fields, refusal } = serde_json::from_slice(&text).ok()?;
    fields.push((CSRF.to_owned(), visit.csrf()));
    let body = serde_html_form::to_string(&fields).ok()?;
    Some((visit.of_refused(refusal.and_then(Refusal::error)), body.into()))
}

/// Ends the cookie of a form whose page is shown.
pub(super) fn end(visit: &Visit, mut response: Response) -> Response {
    let cookies = visit.console.cookies();
    response.headers_mut().append(SET_COOKIE, cookies.end(cookies.refused()));
    response
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use serde_json::json;
    use thesis_proto::error::FieldError;

    use super::*;

    #[test]
    fn an_error_travels_unchanged() {
        let fields = [FieldError::new("url", "must be an address"), FieldError::new("filters.chain", "must be known")];
        let limited = ApiError::new(ErrorCode::RateLimited, "too many").with_retry_after(7);
        let detailed = ApiError::new(ErrorCode::WebhookUrlForbidden, "not there").with_details(json!({ "port": 1 }));
        for error in [ApiError::validation(&fields), limited, detailed] {
            let text = serde_json::to_string(&Refusal::of(&error)).unwrap();
            assert_eq!(serde_json::from_str::<Refusal>(&text).unwrap().error(), Some(error));
        }
        let old = Refusal { code: "NO_CODE".to_owned(), ..Refusal::of(&ApiError::internal()) };
        assert_eq!(old.error(), None);
    }

    #[test]
    fn values_that_no_page_shows_are_not_in_the_cookie() {
        for name in ["password", "code", "headers", "client_data", "signature"] {
            assert!(is_never_shown(name), "{name}");
        }
        assert!(!["email", "name", "once"].into_iter().any(is_never_shown));
    }

    /// The beginnings of the names of calls that change nothing.
    const READS: [&str; 6] = ["get_", "list_", "search", "verify_", "begin_confirmation", "begin_passkey"];

    /// In parts, so that this file does not have it.
    const CORE: &str = concat!(".core()", ".");

    /// A handler that runs again must not make its change again.
    #[test]
    fn every_change_goes_through_the_visit() {
        let mut folders = vec![PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))];
        let mut changes = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text: String = fs::read_to_string(&path).unwrap().split_whitespace().collect();
                for (at, core) in text.match_indices(CORE) {
                    let call = text[at + core.len()..].split('(').next().unwrap_or_default();
                    let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_.".contains(letter);
                    let method = call.split_once('.').filter(|_| call.chars().all(is_name)).map(|(_, method)| method);
                    let method = method.unwrap_or_else(|| panic!("{call} in {} hides calls", path.display()));
                    if READS.iter().any(|read| method.starts_with(read)) {
                        continue;
                    }
                    let before = text[..at].trim_end_matches(is_name);
                    assert!(before.ends_with(".change("), "{method} in {}", path.display());
                    changes += 1;
                }
            }
        }
        assert!(changes > 50, "{changes}");
    }
}
