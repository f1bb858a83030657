//! The page of a form that was refused. The form redirects to it, so neither a reload nor the way back sends it again.
//!
//! No edge stores the page: it is in a cookie that lasts a minute and that scripts cannot read, compressed and signed
//! for this session and this path. One read ends it. Afterwards the path leads to the page with the form as it was
//! before. A page that no cookie can carry answers the form itself. Pages never show a password again, and a page with
//! a secret is not kept.

use std::io::{Read as _, Write as _};

use axum::response::{Html, IntoResponse as _, Response};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use http::{HeaderValue, Method, StatusCode, header::SET_COOKIE};
use http_body_util::{BodyExt as _, Collected};

use super::{failure::see_other, is_page, shown, visit::Visit};

/// Lifetime of the cookie, in seconds.
const SECONDS: u32 = 60;
/// Maximum size of a page in bytes. Larger ones do not fit into a cookie when they are compressed.
const MAX_PAGE: usize = 64 * 1024;
const PURPOSE: &[u8] = b"refused form";

/// Redirects a refused form to its page. Other responses stay as they are.
pub(super) async fn keep(visit: &Visit, method: &Method, response: Response) -> Response {
    let is_refused = !method.is_safe() && response.status().is_client_error() && is_page(response.headers());
    if !is_refused || shown::has_secret(visit) {
        return response;
    }
    let (head, body) = response.into_parts();
    let page = body.collect().await.map(Collected::to_bytes).unwrap_or_default();
    match cookie(visit, head.status, &page) {
        Some(cookie) => {
            let mut response = see_other(&visit.path);
            response.headers_mut().append(SET_COOKIE, cookie);
            response
        }
        None => Response::from_parts(head, page.into()),
    }
}

/// The cookie with a page; none if a cookie cannot carry it.
fn cookie(visit: &Visit, status: StatusCode, page: &[u8]) -> Option<HeaderValue> {
    if page.len() > MAX_PAGE {
        return None;
    }
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(page).ok()?;
    let text = format!("{}.{}", status.as_u16(), URL_SAFE_NO_PAD.encode(encoder.finish().ok()?));
    let cookies = visit.console.cookies();
    cookies.set_for(cookies.refused(), &shown::seal(visit, PURPOSE, &visit.path, &text), SECONDS)
}

/// The page that the visitor's cookie has for this path. It ends the cookie.
pub(super) fn read(visit: &Visit, method: &Method) -> Option<Response> {
    let sealed = visit.refused.as_deref().filter(|_| *method == Method::GET)?;
    let (status, page) = shown::unseal(visit, PURPOSE, &visit.path, sealed)?.split_once('.')?;
    let status: StatusCode = status.parse().ok()?;
    let compressed = URL_SAFE_NO_PAD.decode(page).ok()?;
    let mut text = String::new();
    DeflateDecoder::new(compressed.as_slice()).read_to_string(&mut text).ok()?;
    let mut response = (status, Html(text)).into_response();
    let cookies = visit.console.cookies();
    response.headers_mut().append(SET_COOKIE, cookies.end(cookies.refused()));
    Some(response)
}
