//! The lookups, with their faults.

mod profiles;
mod theses;
mod tokens;

use std::{io, sync::atomic::Ordering, time::Duration};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{
        StatusCode,
        header::{CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures::{StreamExt as _, stream};
use tokio::time::sleep;

use crate::{
    Faults,
    response::{Refused, rendered},
    shared::{LOOKUPS, Shared, Sim},
    world::World,
};

/// Time for the first half of a response to leave before the connection breaks.
const FIRST_HALF: Duration = Duration::from_millis(20);

/// A kind of lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup {
    Profile,
    ProfileByHandle,
    Wallets,
    Token,
    TokensBySymbol,
    Theses,
    Thesis,
}

impl Lookup {
    /// Every kind, with its name among the counters.
    pub(crate) const ALL: [(Self, &'static str); LOOKUPS] = [
        (Self::Profile, "profile"),
        (Self::ProfileByHandle, "profile_by_handle"),
        (Self::Wallets, "wallets"),
        (Self::Token, "token"),
        (Self::TokensBySymbol, "tokens_by_symbol"),
        (Self::Theses, "theses"),
        (Self::Thesis, "thesis"),
    ];
}

/// The routes of the lookups.
pub(crate) fn routes() -> Router<Sim> {
    Router::new()
        .route("/profiles", get(profiles::by_handle))
        .route("/profiles/{id}", get(profiles::by_id))
        .route("/profiles/{id}/wallets", get(profiles::wallets))
        .route("/tokens", get(tokens::by_symbol))
        .route("/tokens/{chain}/{address}", get(tokens::by_address))
        .route("/theses", get(theses::list))
        .route("/theses/{id}", get(theses::by_id))
}

/// Responds to a lookup with the JSON of `find`, or with a fault.
async fn respond(
    sim: &Shared,
    lookup: Lookup,
    find: impl FnOnce(&World) -> Result<Vec<u8>, Refused> + Send,
) -> Response {
    sim.counters.lookups[lookup as usize].fetch_add(1, Ordering::Relaxed);
    let faults = sim.faults();
    if faults.latency_ms > 0 {
        sleep(Duration::from_millis(faults.latency_ms)).await;
    }
    let (is_refused, is_cut) = sim.fate_of_lookup(&faults);
    if is_refused || is_cut {
        sim.counters.refused_lookups.fetch_add(1, Ordering::Relaxed);
    }
    if is_refused {
        return refuse(&faults);
    }
    match sim.read_world(find) {
        Ok(body) if is_cut => cut(body),
        Ok(body) => rendered(body),
        Err(refused) => refused.into_response(),
    }
}

fn refuse(faults: &Faults) -> Response {
    let status = StatusCode::from_u16(faults.error_status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = Refused::new(status, "this is a fault on demand").into_response();
    let may_say_when = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    if let Some(seconds) = faults.retry_after_s.filter(|_| may_say_when) {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

/// The first half of a response, then the end of the connection.
fn cut(body: Vec<u8>) -> Response {
    let length = body.len();
    let half = Bytes::from(body).slice(..length / 2);
    let end = async {
        sleep(FIRST_HALF).await;
        Err::<Bytes, _>(io::Error::from(io::ErrorKind::ConnectionAborted))
    };
    let pieces = stream::once(async move { Ok::<_, io::Error>(half) }).chain(stream::once(end));
    let headers = [(CONTENT_TYPE, "application/json".to_owned()), (CONTENT_LENGTH, length.to_string())];
    (headers, Body::from_stream(pieces)).into_response()
}
