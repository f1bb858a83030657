//! `POST /sim/tokens` and `PATCH /sim/tokens/{chain}/{address}`.

use axum::{
    body::Bytes,
    extract::{Path, State},
};
use serde::Deserialize;
use serde_json::Value;

use super::plain;
use crate::{
    response::{HandlerResult, Refused, given, json_of, read},
    shared::Sim,
    world::{FeedEvent, TokenChange, World},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewTokenBody {
    chain: String,
    address: String,
    symbol: String,
    name: Option<String>,
    #[serde(default)]
    quiet: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenChangeBody {
    symbol: Option<String>,
    #[serde(default, deserialize_with = "given")]
    name: Option<Option<String>>,
    #[serde(default)]
    quiet: bool,
}

pub(super) async fn create(State(sim): State<Sim>, body: Bytes) -> HandlerResult {
    let NewTokenBody { chain, address, symbol, name, quiet } = read(&body)?;
    let created = sim.change(quiet, |world, now, publish| {
        if world.tokens.number(&chain, &address).is_some() {
            return Err(Refused::conflict("the token is there already"));
        }
        let number = world.add_token(&chain, address, symbol, name, now);
        publish(world, FeedEvent::Token(number));
        Ok(present(world, number))
    })?;
    Ok(json_of(&created))
}

pub(super) async fn change(
    State(sim): State<Sim>,
    Path((chain, address)): Path<(String, String)>,
    body: Bytes,
) -> HandlerResult {
    let TokenChangeBody { symbol, name, quiet } = read(&body)?;
    let changed = sim.change(quiet, |world, now, publish| {
        let number = world.tokens.number(&chain, &address).ok_or_else(Refused::missing)?;
        world.tokens.change(number, TokenChange { symbol, name, logo_url: None }, now);
        publish(world, FeedEvent::Token(number));
        Ok::<_, Refused>(present(world, number))
    })?;
    Ok(json_of(&changed))
}

fn present(world: &World, number: usize) -> Value {
    plain(&**world.tokens.at(number))
}
