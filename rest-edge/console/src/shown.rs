//! Secrets that a page shows once after a form: a new key, or a link to hand over.
//!
//! The form redirects to the page, so neither a reload nor the back button sends the form again. No edge stores the
//! secret: it is in a cookie that lasts ten minutes and that scripts cannot read. Until then a reload shows it again,
//! and afterwards nobody can see it. The cookie is signed for this session and this page.

use axum::response::Response;
use hmac::{Hmac, Mac as _};
use http::header::SET_COOKIE;
use serde::{Serialize, de::DeserializeOwned};
use sha2::Sha256;
use thesis_proto::error::ApiError;

use super::{
    failure::{Failed, see_other},
    visit::Visit,
};

/// Lifetime of the cookie, in seconds.
const SECONDS: u32 = 600;
/// Length of the signature in bytes: 128 bits.
const SIGNATURE: usize = 16;

const PURPOSE: &[u8] = b"shown once";

fn mac(visit: &Visit, purpose: &[u8], path: &str, text: &str) -> Hmac<Sha256> {
    let mut mac = visit.mac_of(purpose);
    for part in [path, "\n", text] {
        mac.update(part.as_bytes());
    }
    mac
}

/// Puts a signature before a text, for this session, a purpose and a page.
pub(crate) fn seal(visit: &Visit, purpose: &[u8], path: &str, text: &str) -> String {
    let signature = mac(visit, purpose, path, text).finalize().into_bytes();
    format!("{}.{text}", hex::encode(&signature[..SIGNATURE]))
}

/// The text behind its signature; none if it was signed for another session, purpose or page.
pub(crate) fn unseal<'a>(visit: &Visit, purpose: &[u8], path: &str, sealed: &'a str) -> Option<&'a str> {
    let (given, text) = sealed.split_once('.')?;
    let given = hex::decode(given).ok().filter(|tag| tag.len() == SIGNATURE)?;
    mac(visit, purpose, path, text).verify_truncated_left(&given).ok()?;
    Some(text)
}

/// Redirects to the page at a path, which shows a secret for ten minutes.
///
/// # Errors
/// Fails if a cookie cannot carry the secret.
pub(crate) fn show(visit: &Visit, path: &str, secret: &impl Serialize) -> Result<Response, Failed> {
    let text = serde_html_form::to_string(secret).map_err(|_| Failed::from(ApiError::internal()))?;
    let cookies = visit.console.cookies();
    let cookie = cookies.set_for(cookies.shown(), &seal(visit, PURPOSE, path, &text), SECONDS);
    let cookie = cookie.ok_or_else(|| Failed::from(ApiError::internal()))?;
    let mut response = see_other(path);
    response.headers_mut().append(SET_COOKIE, cookie);
    Ok(response)
}

/// Reads the secret of this page; none once its time has passed.
pub(crate) fn read<T: DeserializeOwned>(visit: &Visit) -> Option<T> {
    let path = visit.path.split('?').next().unwrap_or_default();
    serde_html_form::from_str(unseal(visit, PURPOSE, path, visit.shown.as_deref()?)?).ok()
}
