//! The style, scripts, fonts and images of the pages. Their path contains their hash, so browsers cache them without
//! limit.

#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use axum::{Router, extract::Path, response::IntoResponse as _, routing::get};
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use sha2::{Digest as _, Sha256};

use super::{Page, failure::Failed};

const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const PNG: &str = "image/png";
const WOFF2: &str = "font/woff2";
/// The style of all pages but the one that checks receipts, which is a single file and so has no fonts.
const STYLE: &str = concat!(include_str!("../assets/fonts/fonts.css"), include_str!("../assets/site.css"));
/// Name, media type and content of each file.
const FILES: [(&str, &str, &[u8]); 21] = [
    ("site.css", CSS, STYLE.as_bytes()),
    ("theme.js", JAVASCRIPT, include_bytes!("../assets/theme.js")),
    ("console.js", JAVASCRIPT, include_bytes!("../assets/console.js")),
    ("times.js", JAVASCRIPT, include_bytes!("../assets/times.js")),
    ("frame.js", JAVASCRIPT, include_bytes!("../assets/frame.js")),
    ("passkeys.js", JAVASCRIPT, include_bytes!("../assets/passkeys.js")),
    ("events.js", JAVASCRIPT, include_bytes!("../assets/events.js")),
    ("live.js", JAVASCRIPT, include_bytes!("../assets/live.js")),
    ("alerts.js", JAVASCRIPT, include_bytes!("../assets/alerts.js")),
    ("home.css", CSS, include_bytes!("../assets/home.css")),
    ("home.js", JAVASCRIPT, include_bytes!("../assets/home.js")),
    ("docs.css", CSS, include_bytes!("../assets/docs.css")),
    ("docs.js", JAVASCRIPT, include_bytes!("../assets/docs.js")),
    ("reference.js", JAVASCRIPT, include_bytes!("../assets/reference.js")),
    ("status.css", CSS, include_bytes!("../assets/status.css")),
    ("geist.woff2", WOFF2, include_bytes!("../assets/fonts/geist.woff2")),
    ("geist-mono.woff2", WOFF2, include_bytes!("../assets/fonts/geist-mono.woff2")),
    ("icon.svg", SVG, include_bytes!("../assets/icon.svg")),
    ("icons.svg", SVG, include_bytes!("../assets/icons.svg")),
    ("touch.png", PNG, include_bytes!("../assets/touch.png")),
    ("social.png", PNG, include_bytes!("../assets/social.png")),
];

/// The cache policy of a path with the current hash.
const IMMUTABLE: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// The cache policy of a path with the hash of another release. Pages of that release request it during a rolling
/// update.
const NO_CACHE: HeaderValue = HeaderValue::from_static("no-cache");

static FOLDER: LazyLock<String> = LazyLock::new(|| {
    let hash = FILES.iter().fold(Sha256::new(), |hash, (.., bytes)| hash.chain_update(bytes)).finalize();
    format!("/console/assets/{}", hex::encode(&hash[..8]))
});

/// The path prefix of all files.
pub fn folder() -> &'static str {
    &FOLDER
}

pub(super) fn routes() -> Router {
    Router::new().route("/console/assets/{version}/{name}", get(asset))
}

async fn asset(Path((version, name)): Path<(String, String)>) -> Page {
    let (_, kind, bytes) = FILES.into_iter().find(|(known, ..)| *known == name).ok_or_else(Failed::missing)?;
    let is_present = folder().ends_with(&format!("/{version}"));
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, if is_present { IMMUTABLE } else { NO_CACHE });
    Ok(response)
}
