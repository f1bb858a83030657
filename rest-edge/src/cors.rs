//! Cross-origin requests: pages of any origin may call the API. A key is no cookie, so browsers send no credentials.
//!
//! `tower_http::cors` does not fit: it answers every `OPTIONS` before the router, with one list of methods for all
//! paths. Here a preflight lists the methods of its path, also in `Allow`, and an unknown path is 404.

use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW,
    },
};
use http_body_util::{Either, Full};

use crate::answer::Body;

/// The list is explicit: `*` does not cover `Authorization`, and older browsers do not know `*`.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, traceparent, *",
);
const ANSWER_HEADERS: HeaderValue = HeaderValue::from_static(
    "X-Service-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Policy, RateLimit, \
     Retry-After, Idempotent-Replayed, ETag, Allow",
);
/// Browsers cache a preflight for this many seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// True if pages of other origins may call the path.
pub(crate) fn covers(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Lets pages of other origins read a response.
pub(crate) fn open(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
}

/// The response to a preflight. It needs no key, because browsers send none with a preflight.
pub(crate) fn preflight(allow: &HeaderValue) -> Response<Body> {
    const HEADERS: [(HeaderName, HeaderValue); 2] =
        [(ACCESS_CONTROL_ALLOW_HEADERS, REQUEST_HEADERS), (ACCESS_CONTROL_MAX_AGE, MAX_AGE)];
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.extend(HEADERS);
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, allow.clone());
    headers.insert(ALLOW, allow.clone());
    response
}
