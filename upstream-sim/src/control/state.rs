//! `GET /sim/state`: all counts.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::{extract::State, response::Response};
use serde_json::{Map, Value, json};

use crate::{lookups::Lookup, response::json_of, shared::Sim};

pub(super) async fn state(State(sim): State<Sim>) -> Response {
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let counters = &sim.counters;
    let count = |lookup: Lookup| Value::from(read(&counters.lookups[lookup as usize]));
    let counts = Lookup::ALL.into_iter().map(|(lookup, name)| (name.to_owned(), count(lookup)));
    let lookups: Map<String, Value> = counts.collect();
    let (profiles, tokens, theses, deleted) =
        sim.read_world(|world| (world.profiles.len(), world.tokens.len(), world.theses.len(), world.theses.deleted));
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
        "look_ups": lookups,
        "refused_look_ups": read(&counters.refused_lookups),
    }))
}
