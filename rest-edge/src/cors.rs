//! Pages of any origin may call the API. A key is no cookie, so no credentials of a browser are ever involved.

use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{
        ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
        ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ALLOW,
    },
};
use http_body_util::{Either, Full};

use crate::answer::Body;

/// `*` does not cover `Authorization`, and older browsers do not know it.
const REQUEST_HEADERS: HeaderValue = HeaderValue::from_static(
    "Authorization, Content-Type, Idempotency-Key, If-None-Match, Last-Event-ID, traceparent, *",
);
const ANSWER_HEADERS: HeaderValue = HeaderValue::from_static(
    "X-Service-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Policy, RateLimit, \
     Retry-After, Idempotent-Replayed, ETag, Allow",
);
/// Longest time until a browser asks again, in seconds.
const MAX_AGE: HeaderValue = HeaderValue::from_static("86400");
const ANY: HeaderValue = HeaderValue::from_static("*");

/// Whether pages of other origins may call a path.
pub(crate) fn covers(path: &str) -> bool {
    path.strip_prefix("/v1").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Lets a page read an answer.
pub(crate) fn open(headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, ANY);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, ANSWER_HEADERS);
}

/// The answer to a browser that asks before a page's request. It needs no key: the browser sends none yet.
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
