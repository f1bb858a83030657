//! `POST /sim/theses`, `PATCH` and `DELETE /sim/theses/{id}`.

use axum::{
    body::Bytes,
    extract::{Path, Query, State},
};
use serde::Deserialize;
use serde_json::Value;

use super::plain;
use crate::{
    response::{HandlerResult, Refused, given, json_of, read, read_time},
    shared::Sim,
    world::{FeedEvent, World},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewThesisBody {
    profile_id: Option<String>,
    token: Option<TokenName>,
    text: Option<String>,
    created_at: Option<String>,
    #[serde(default)]
    quiet: bool,
}

#[derive(Deserialize)]
struct TokenName {
    chain: String,
    address: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ThesisChangeBody {
    text: Option<String>,
    #[serde(default, deserialize_with = "given")]
    likes: Option<Option<u64>>,
    #[serde(default, deserialize_with = "given")]
    replies: Option<Option<u64>>,
    #[serde(default)]
    quiet: bool,
}

#[derive(Deserialize)]
pub(super) struct DeleteQuery {
    #[serde(default)]
    quiet: bool,
}

pub(super) async fn create(State(sim): State<Sim>, body: Bytes) -> HandlerResult {
    let new: NewThesisBody = read(&body)?;
    let created_at = new.created_at.as_deref().map(read_time).transpose()?;
    let created = sim.change(new.quiet, |world, now, publish| {
        let author = author(world, new.profile_id.as_deref())?;
        let coin = coin(world, new.token.as_ref())?;
        let text = new.text.unwrap_or_else(|| world.some_text(coin));
        let number = world.add_thesis(author, coin, text, created_at.unwrap_or(now), now);
        publish(world, FeedEvent::Created(number));
        Ok::<_, Refused>(present(world, number))
    })?;
    Ok(json_of(&created))
}

pub(super) async fn change(State(sim): State<Sim>, Path(id): Path<String>, body: Bytes) -> HandlerResult {
    let ThesisChangeBody { text, likes, replies, quiet } = read(&body)?;
    let changed = sim.change(quiet, |world, now, publish| {
        let number = living(world, &id)?;
        if let Some(text) = text {
            world.edit(number, text, now);
            publish(world, FeedEvent::Edited(number));
        }
        if likes.is_some() || replies.is_some() {
            world.engage(number, likes, replies, now);
            publish(world, FeedEvent::Engagement(number));
        }
        Ok::<_, Refused>(present(world, number))
    })?;
    Ok(json_of(&changed))
}

pub(super) async fn delete(
    State(sim): State<Sim>,
    Path(id): Path<String>,
    Query(query): Query<DeleteQuery>,
) -> HandlerResult {
    let tombstone = sim.change(query.quiet, |world, now, publish| {
        let number = living(world, &id)?;
        world.delete(number, now);
        publish(world, FeedEvent::Deleted(number));
        Ok::<_, Refused>(present(world, number))
    })?;
    Ok(json_of(&tombstone))
}

fn present(world: &World, number: usize) -> Value {
    plain(world.theses.at(number))
}

/// The number of the named author, or of any.
fn author(world: &mut World, id: Option<&str>) -> Result<usize, Refused> {
    match id {
        Some(id) => world.profiles.number(id).ok_or_else(|| Refused::wrong("there is no such profile")),
        None if world.profiles.len() == 0 => Err(Refused::conflict("there is no profile")),
        None => Ok(world.some_author()),
    }
}

/// The number of the named token, or of any.
fn coin(world: &mut World, name: Option<&TokenName>) -> Result<usize, Refused> {
    match name {
        Some(TokenName { chain, address }) => {
            world.tokens.number(chain, address).ok_or_else(|| Refused::wrong("there is no such token"))
        }
        None if world.tokens.len() == 0 => Err(Refused::conflict("there is no token")),
        None => Ok(world.some_coin()),
    }
}

/// The number of a thesis that is not deleted.
fn living(world: &World, id: &str) -> Result<usize, Refused> {
    let number = world.theses.number(id).ok_or_else(Refused::missing)?;
    if world.theses.at(number).deleted { Err(Refused::conflict("a deletion is for good")) } else { Ok(number) }
}
