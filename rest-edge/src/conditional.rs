//! `ETag` and `If-None-Match` of single resources.

use http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
};
use http_body_util::{Either, Full};
use sha2::{Digest as _, Sha256};

use crate::answer::{Body, whole};

/// Names the state of a resource by its bytes, and leaves them out where the client has that state already.
pub(crate) async fn tag(response: &mut Response<Body>, asked: &HeaderMap) {
    let Either::Left(body) = response.body_mut() else {
        return;
    };
    let bytes = whole(body).await;
    let known = Known(hex::encode(&Sha256::digest(&bytes)[..16]));
    let matches = known.is_in(asked);
    *body = Full::new(if matches { Default::default() } else { bytes });
    if matches {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response.headers_mut().remove(CONTENT_TYPE);
        response.headers_mut().remove(CONTENT_LENGTH);
    }
    let headers = response.headers_mut();
    headers.insert(ETAG, known.header());
    // An answer is one key's, and a cache must ask whether it still holds.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
}

/// A state by its digest. The tag is weak, as compression changes the bytes and not the state.
struct Known(String);

impl Known {
    fn header(&self) -> HeaderValue {
        HeaderValue::try_from(format!("W/\"{}\"", self.0)).expect("hexadecimal digits are printable")
    }

    fn is_in(&self, asked: &HeaderMap) -> bool {
        let values = asked.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|text| text.split(',')).map(str::trim).any(|tag| {
            let quoted = tag.strip_prefix("W/").unwrap_or(tag);
            tag == "*" || quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) == Some(&self.0)
        })
    }
}
