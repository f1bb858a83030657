//! The style, the scripts and the icon of the pages. Their path contains their hash, so browsers cache them without
//! limit.

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
/// Name, media type and content of each file.
const FILES: [(&str, &str, &[u8]); 9] = [
    ("console.css", CSS, include_bytes!("../assets/console.css")),
    ("console.js", JAVASCRIPT, include_bytes!("../assets/console.js")),
    ("events.js", JAVASCRIPT, include_bytes!("../assets/events.js")),
    ("home.css", CSS, include_bytes!("../assets/home.css")),
    ("home.js", JAVASCRIPT, include_bytes!("../assets/home.js")),
    ("docs.css", CSS, include_bytes!("../assets/docs.css")),
    ("docs.js", JAVASCRIPT, include_bytes!("../assets/docs.js")),
    ("icon.svg", SVG, include_bytes!("../assets/icon.svg")),
    ("reference.js", JAVASCRIPT, include_bytes!("../assets/reference.js")),
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
