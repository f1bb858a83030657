//! `ETag` and `If-None-Match` of single resources.

use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
};
use http_body_util::{Either, Full};
use sha2::{Digest as _, Sha256};

use crate::answer::{Body, take_bytes};

/// Adds an `ETag` unless the response has one. If the client already has that state, the response becomes a 304 without
/// a body.
pub(crate) async fn add_tag(response: &mut Response<Body>, request_headers: &HeaderMap) {
    let Either::Left(body) = response.body_mut() else {
        return;
    };
    let bytes = take_bytes(body).await;
    let known = response.headers().get(ETAG).cloned();
    let tag = known.clone().unwrap_or_else(|| tag_of(&bytes));
    let matches = is_in(&tag, request_headers);
    *response.body_mut() = Either::Left(Full::new(if matches { Default::default() } else { bytes }));
    let headers = response.headers_mut();
    if known.is_none() {
        headers.insert(ETAG, tag);
        // The response belongs to one key, and a cache must check that it is still valid.
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    }
    if matches {
        for name in [CONTENT_TYPE, CONTENT_LENGTH, CONTENT_ENCODING] {
            headers.remove(name);
        }
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
}

/// The tag is a digest of the bytes. It is weak, because compression changes the bytes but not the state.
pub(crate) fn tag_of(bytes: &[u8]) -> HeaderValue {
    let digest = hex::encode(&Sha256::digest(bytes)[..16]);
    HeaderValue::try_from(format!("W/\"{digest}\"")).expect("hexadecimal digits are printable")
}

/// True if the client already has the state with this tag.
pub(crate) fn is_in(tag: &HeaderValue, request_headers: &HeaderMap) -> bool {
    let strong = |tag: &str| tag.strip_prefix("W/").unwrap_or(tag).to_owned();
    let tag = strong(tag.to_str().unwrap_or_default());
    let values = request_headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|text| text.split(',')).map(str::trim).any(|known| known == "*" || strong(known) == tag)
}
