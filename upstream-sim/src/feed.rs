//! `GET /feed`: the frames as they come, or from a position on.

mod log;
mod reader;

use axum::{
    Router,
    body::Body,
    extract::{Query, State},
    http::{
        StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse as _, Response},
    routing::get,
};
use futures::stream;
use serde::Deserialize;
use serde_json::json;

pub(crate) use self::log::Log;
use self::{log::render, reader::Reader};
use crate::{
    response::{HandlerResult, Refused, bytes_of, json_of},
    shared::Sim,
    time,
};

#[derive(Deserialize)]
struct FeedQuery {
    after: Option<String>,
}

/// The route of the feed.
pub(crate) fn routes() -> Router<Sim> {
    Router::new().route("/feed", get(open))
}

async fn open(State(sim): State<Sim>, Query(query): Query<FeedQuery>) -> HandlerResult {
    let faults = sim.faults();
    if faults.refuse_feed {
        let mut refused = Refused::new(StatusCode::SERVICE_UNAVAILABLE, "the feed is down").into_response();
        if let Some(seconds) = faults.retry_after_s {
            refused.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        return Ok(refused);
    }
    let Some((behind, position)) = start(&sim, query.after.as_deref(), faults.lose_positions) else {
        let oldest_at = sim.log().oldest_at();
        let gone = json_of(&json!({ "oldest_at": time::text(oldest_at) }));
        return Ok((StatusCode::GONE, gone).into_response());
    };
    let now = json!({ "now": time::text(sim.clock.now_ms()) });
    let first = render(&position, "open", &bytes_of(&now));
    let reader = Reader::new(sim, behind, first);
    let body = Body::from_stream(stream::unfold(reader, Reader::piece));
    Ok(response(body))
}

/// The number after which a connection begins, and its position; `None` when the position is unknown.
fn start(sim: &Sim, after: Option<&str>, loses_positions: bool) -> Option<(u64, String)> {
    let log = sim.log();
    let number = match after {
        None => log.newest(),
        Some(_) if loses_positions => return None,
        Some(position) => log.find(position)?,
    };
    Some((number, log.position(number)))
}

fn response(body: Body) -> Response {
    ([(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")], body).into_response()
}
