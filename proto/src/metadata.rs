//! Names of the gRPC metadata that travels between the roles.

use http::HeaderMap;

/// The API key: `Bearer <key>`.
pub const AUTHORIZATION: &str = "authorization";
/// The service credential of edge, worker and admin. Core trusts the other `x-` entries of a request only with it.
pub const SERVICE_TOKEN: &str = "x-service-token";
/// The session of the calling person.
pub const SESSION: &str = "x-session";
/// The cookies of a browser: one of them may carry a session.
const COOKIE: &str = "cookie";
/// The project in which the person of a session calls a public service, in place of a key.
pub const PROJECT: &str = "x-project";
/// The environment of that project: [`LIVE`] or [`TEST`].
pub const ENVIRONMENT: &str = "x-environment";
/// The value of [`ENVIRONMENT`] for the live environment.
pub const LIVE: &str = "live";
/// The value of [`ENVIRONMENT`] for the test environment.
pub const TEST: &str = "test";
/// The customer's address, as the edge sees it.
pub const CLIENT_ADDRESS: &str = "x-client-address";
/// The request id, in requests from the edge and in every response.
pub const REQUEST_ID: &str = "x-service-request-id";
/// Method, status of success, route and address of the HTTP request that the edge translates.
pub const REQUEST_LINE: &str = "x-request-line";
/// The idempotency key of a request.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
/// Marks a request that the edge could read only in part: core runs the checks up to its shape, then refuses it.
pub const MALFORMED: &str = "x-malformed";
/// `true` on a replayed response.
pub const IDEMPOTENT_REPLAYED: &str = "idempotent-replayed";
/// `true` on a page whose rows are in the extension [`crate::json::RenderedRows`], and not in its message. It never
/// leaves the process.
pub const RENDERED: &str = "x-rendered";
/// Requests allowed in the window.
pub const RATE_LIMIT: &str = "x-ratelimit-limit";
/// Requests left in the window.
pub const RATE_REMAINING: &str = "x-ratelimit-remaining";
/// Unix seconds at which the window ends.
pub const RATE_RESET: &str = "x-ratelimit-reset";
/// The IETF draft's `RateLimit-Policy`.
pub const IETF_POLICY: &str = "ratelimit-policy";
/// The IETF draft's `RateLimit`.
pub const IETF_LIMIT: &str = "ratelimit";
/// Response metadata that the edge copies unchanged to the HTTP response.
pub const ANSWER_HEADERS: [&str; 6] =
    [RATE_LIMIT, RATE_REMAINING, RATE_RESET, IETF_POLICY, IETF_LIMIT, IDEMPOTENT_REPLAYED];

/// Marks the headers that carry a key, a credential or a session, cookies included, as sensitive: logs never show them,
/// and HTTP/2 never keeps them in its table of headers.
pub fn hide_secrets(headers: &mut HeaderMap) {
    for (name, value) in headers.iter_mut() {
        if [AUTHORIZATION, SERVICE_TOKEN, SESSION, COOKIE].contains(&name.as_str()) {
            value.set_sensitive(true);
        }
    }
}
