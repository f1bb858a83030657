//! `GET /sim/state`: numbers of everything.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::{Router, extract::State, response::Response, routing::get};
use serde_json::{Map, Value, json};

use crate::{answer::json_of, look_ups::LookUp, shared::Sim};

pub(super) fn routes() -> Router<Sim> {
    Router::new().route("/state", get(state))
}

async fn state(State(sim): State<Sim>) -> Response {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &sim.counters;
    let count = |lookup: LookUp| Value::from(read(&counters.look_ups[lookup as usize]));
    let made = LookUp::ALL.into_iter().map(|(lookup, name)| (name.to_owned(), count(lookup)));
    let look_ups: Map<String, Value> = made.collect();
    let (profiles, tokens, theses, deleted) =
        sim.look(|world| (world.profiles.len(), world.tokens.len(), world.theses.len(), world.theses.deleted));
    let (position, frames) = {
        let log = sim.log();
        (log.position(log.newest()), log.newest())
    };
    json_of(&json!({
        "profiles": profiles,
        "tokens": tokens,
        "theses": theses,
        "deleted": deleted,
        "position": position,
        "frames": frames,
        "feed_connections": read(&counters.feed_connections),
        "feed_opened": read(&counters.feed_opened),
        "look_ups": look_ups,
        "refused_look_ups": read(&counters.refused_look_ups),
    }))
}
