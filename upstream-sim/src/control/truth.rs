//! `GET /sim/theses`, `/sim/profiles` and `/sim/tokens`: everything in the order of its creation, with no other fields
//! than the interface's.

use axum::extract::{Query, State};
use serde::Deserialize;
use serde_json::{Value, json};

use super::plain;
use crate::{
    response::{HandlerResult, Refused, json_of, read_limit},
    shared::Sim,
    world::World,
};

/// Maximum objects of a page, and their number when the request names none.
const MAX_PAGE: usize = 10_000;
const DEFAULT_PAGE: usize = 1_000;

#[derive(Deserialize)]
pub(super) struct TruthQuery {
    /// The `next` of the page before.
    after: Option<String>,
    limit: Option<String>,
}

pub(super) async fn theses(State(sim): State<Sim>, Query(query): Query<TruthQuery>) -> HandlerResult {
    page(&sim, &query, |world| world.theses.all(), plain)
}

pub(super) async fn profiles(State(sim): State<Sim>, Query(query): Query<TruthQuery>) -> HandlerResult {
    page(&sim, &query, |world| world.profiles.all(), |profile| plain(&**profile))
}

pub(super) async fn tokens(State(sim): State<Sim>, Query(query): Query<TruthQuery>) -> HandlerResult {
    page(&sim, &query, |world| world.tokens.all(), |token| plain(&**token))
}

/// Responds with a page of all objects, in the order of their numbers.
fn page<T>(
    sim: &Sim,
    query: &TruthQuery,
    all: impl FnOnce(&World) -> &[T],
    plain: impl Fn(&T) -> Value,
) -> HandlerResult {
    let begin = match &query.after {
        None => 0,
        Some(after) => after.parse::<usize>().map_err(|_| Refused::wrong("after is a number"))?.saturating_add(1),
    };
    let limit = read_limit(query.limit.as_deref(), DEFAULT_PAGE, MAX_PAGE)?;
    let (data, count) = sim.read_world(|world| {
        let all = all(world);
        (all.iter().skip(begin).take(limit).map(plain).collect::<Vec<_>>(), all.len())
    });
    let last = begin.saturating_add(data.len());
    let next = (last < count && !data.is_empty()).then(|| last - 1);
    Ok(json_of(&json!({ "data": data, "next": next })))
}
