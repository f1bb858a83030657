//! The style and the scripts of the pages. Their path has their hash, so browsers keep them for good.

use std::sync::{Arc, LazyLock};

use axum::{Router, extract::Path, response::IntoResponse as _, routing::get};
use http::{
    HeaderValue,
    header::{CACHE_CONTROL, CONTENT_TYPE},
};
use sha2::{Digest as _, Sha256};

use super::{Console, Page, view::Failed};

const STYLE: &[u8] = include_bytes!("../../assets/console.css");
const SCRIPT: &[u8] = include_bytes!("../../assets/console.js");
/// The script of the pages with live events.
const EVENTS: &[u8] = include_bytes!("../../assets/events.js");

/// For a path with the present hash.
const FOR_GOOD: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// For a path of another release, which a page of it asks for while this one starts.
const NOW: HeaderValue = HeaderValue::from_static("no-cache");

static FOLDER: LazyLock<String> = LazyLock::new(|| {
    let hash = Sha256::new().chain_update(STYLE).chain_update(SCRIPT).chain_update(EVENTS).finalize();
    format!("/console/assets/{}", hex::encode(&hash[..8]))
});

/// The folder of the files.
pub(super) fn folder() -> &'static str {
    &FOLDER
}

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new().route("/console/assets/{version}/{name}", get(asset))
}

async fn asset(Path((version, name)): Path<(String, String)>) -> Page {
    let (kind, bytes) = match name.as_str() {
        "console.css" => ("text/css; charset=utf-8", STYLE),
        "console.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "events.js" => ("text/javascript; charset=utf-8", EVENTS),
        _ => return Err(Failed::missing()),
    };
    let is_present = folder().ends_with(&format!("/{version}"));
    let mut response = bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, if is_present { FOR_GOOD } else { NOW });
    Ok(response)
}
