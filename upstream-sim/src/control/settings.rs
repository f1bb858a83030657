//! `GET` and `PUT /sim/faults`, `PUT /sim/rate`, `POST /sim/burst`.

use axum::{body::Bytes, extract::State, response::Response};
use serde::Deserialize;
use serde_json::json;

use crate::{
    response::{HandlerResult, Refused, json_of, read},
    shared::Sim,
    ticker::repeat,
    world::World,
};

/// Maximum new theses a second.
const MAX_RATE: f64 = 100_000.0;
/// Maximum theses of a burst.
const MAX_THESES: usize = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RateBody {
    rate: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BurstBody {
    theses: usize,
}

pub(super) async fn faults(State(sim): State<Sim>) -> Response {
    json_of(&sim.faults())
}

pub(super) async fn set_faults(State(sim): State<Sim>, body: Bytes) -> HandlerResult {
    let faults = sim.faults().with(read(&body)?).map_err(Refused::wrong)?;
    sim.set_faults(faults);
    Ok(json_of(&faults))
}

pub(super) async fn set_rate(State(sim): State<Sim>, body: Bytes) -> HandlerResult {
    let RateBody { rate } = read(&body)?;
    if !(0.0..=MAX_RATE).contains(&rate) {
        return Err(Refused::wrong(format!("rate is from 0 to {MAX_RATE}")));
    }
    sim.set_rate(rate);
    Ok(json_of(&json!({ "rate": rate })))
}

pub(super) async fn burst(State(sim): State<Sim>, body: Bytes) -> HandlerResult {
    let BurstBody { theses } = read(&body)?;
    if theses > MAX_THESES {
        return Err(Refused::wrong(format!("theses are {MAX_THESES} at most")));
    }
    repeat(&sim, theses, World::invent_thesis).await;
    let position = {
        let log = sim.log();
        log.position(log.newest())
    };
    Ok(json_of(&json!({ "position": position })))
}
