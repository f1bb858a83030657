//! The credential of every request.

use axum::{
    extract::{Request, State},
    http::{HeaderMap, StatusCode, header::AUTHORIZATION},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use secrecy::ExposeSecret as _;
use subtle::ConstantTimeEq as _;

use crate::{response::Refused, shared::Sim};

/// Lets a request with the token pass.
pub(crate) async fn check(State(sim): State<Sim>, request: Request, next: Next) -> Response {
    let expected = sim.token.expose_secret().as_bytes();
    let sent = bearer(request.headers()).unwrap_or_default();
    if !bool::from(sent.as_bytes().ct_eq(expected)) {
        return Refused::new(StatusCode::UNAUTHORIZED, "this is not the token").into_response();
    }
    next.run(request).await
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}
