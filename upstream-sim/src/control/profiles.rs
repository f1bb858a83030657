//! `POST /sim/profiles`, `PATCH /sim/profiles/{id}` and `PUT /sim/profiles/{id}/wallets`.

use axum::{
    body::Bytes,
    extract::{Path, State},
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::plain;
use crate::{
    response::{HandlerResult, Refused, given, json_of, read},
    shared::Sim,
    world::{FeedEvent, ProfileChange, World},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewProfileBody {
    handle: String,
    display_name: Option<String>,
    bio: Option<String>,
    #[serde(default)]
    quiet: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileChangeBody {
    handle: Option<String>,
    #[serde(default, deserialize_with = "given")]
    display_name: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    bio: Option<Option<String>>,
    #[serde(default, deserialize_with = "given")]
    verified: Option<Option<bool>>,
    #[serde(default)]
    quiet: bool,
}

pub(super) async fn create(State(sim): State<Sim>, body: Bytes) -> HandlerResult {
    let NewProfileBody { handle, display_name, bio, quiet } = read(&body)?;
    let created = sim.change(quiet, |world, now, publish| {
        if world.profiles.is_taken(&handle) {
            return Err(taken());
        }
        let number = world.add_profile(handle, display_name, bio, now);
        publish(world, FeedEvent::Profile(number));
        Ok(present(world, number))
    })?;
    Ok(json_of(&created))
}

pub(super) async fn change(State(sim): State<Sim>, Path(id): Path<String>, body: Bytes) -> HandlerResult {
    let ProfileChangeBody { handle, display_name, bio, verified, quiet } = read(&body)?;
    let changed = sim.change(quiet, |world, now, publish| {
        let number = world.profiles.number(&id).ok_or_else(Refused::missing)?;
        let owner = handle.as_deref().and_then(|handle| world.profiles.by_handle(handle));
        if owner.is_some_and(|owner| owner.id != id) {
            return Err(taken());
        }
        world.profiles.change(number, ProfileChange { handle, display_name, bio, verified }, now);
        publish(world, FeedEvent::Profile(number));
        Ok(present(world, number))
    })?;
    Ok(json_of(&changed))
}

/// Wallets are stored unchanged, so that a test can send wrong ones.
pub(super) async fn set_wallets(State(sim): State<Sim>, Path(id): Path<String>, body: Bytes) -> HandlerResult {
    let wallets: Vec<Value> = read(&body)?;
    let response = json!({ "data": wallets });
    sim.change(true, |world, _, _| {
        let number = world.profiles.number(&id).ok_or_else(Refused::missing)?;
        world.profiles.set_wallets(number, wallets);
        Ok::<_, Refused>(())
    })?;
    Ok(json_of(&response))
}

fn present(world: &World, number: usize) -> Value {
    plain(&**world.profiles.at(number))
}

fn taken() -> Refused {
    Refused::conflict("the handle is taken")
}
