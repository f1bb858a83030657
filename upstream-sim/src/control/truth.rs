//! `GET /sim/theses`, `/sim/profiles` and `/sim/tokens`: everything in the order of its creation, with no other fields
//! than the interface's.

use axum::{
    Router,
    extract::{Query, State},
    routing::get,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    response::{HandlerResult, Refused, json_of, read_limit},
    shared::Sim,
    world::World,
};

/// Maximum objects of a page, and their number when the request names none.
const MAX_PAGE: usize = 10_000;
const DEFAULT_PAGE: usize = 1_000;
/// Fields of objects that the interface does not have.
const NOT_OF_THE_INTERFACE: [&str; 5] = ["balance", "email", "pnl_usd", "positions", "price_usd"];

#[derive(Deserialize)]
struct TruthQuery {
    /// The `next` of the page before.
    after: Option<String>,
    limit: Option<String>,
}

pub(super) fn routes() -> Router<Sim> {
    Router::new()
        .route("/theses", get(theses).post(super::theses::create))
        .route("/profiles", get(profiles).post(super::profiles::create))
        .route("/tokens", get(tokens).post(super::tokens::create))
}

async fn theses(State(sim): State<Sim>, Query(query): Query<TruthQuery>) -> HandlerResult {
    page(&sim, &query, |world, range| {
        let theses = world.theses.from(range.begin).take(range.limit);
        (theses.map(plain).collect(), world.theses.len())
    })
}

async fn profiles(State(sim): State<Sim>, Query(query): Query<TruthQuery>) -> HandlerResult {
    page(&sim, &query, |world, range| {
        let profiles = world.profiles.from(range.begin).take(range.limit);
        (profiles.map(|profile| plain(&**profile)).collect(), world.profiles.len())
    })
}

async fn tokens(State(sim): State<Sim>, Query(query): Query<TruthQuery>) -> HandlerResult {
    page(&sim, &query, |world, range| {
        let tokens = world.tokens.from(range.begin).take(range.limit);
        (tokens.map(|token| plain(&**token)).collect(), world.tokens.len())
    })
}

/// The objects of a page, by their numbers.
#[derive(Clone, Copy)]
struct PageRange {
    begin: usize,
    limit: usize,
}

/// Responds with a page from `take`: its objects, and the number of all objects.
fn page(sim: &Sim, query: &TruthQuery, take: impl FnOnce(&World, PageRange) -> (Vec<Value>, usize)) -> HandlerResult {
    let begin = match &query.after {
        None => 0,
        Some(after) => after.parse::<usize>().map_err(|_| Refused::wrong("after is a number"))?.saturating_add(1),
    };
    let limit = read_limit(query.limit.as_deref(), DEFAULT_PAGE, MAX_PAGE)?;
    let (data, count) = sim.read_world(|world| take(world, PageRange { begin, limit }));
    let last = begin.saturating_add(data.len());
    let next = (last < count && !data.is_empty()).then(|| last - 1);
    Ok(json_of(&json!({ "data": data, "next": next })))
}

/// An object with the interface's fields alone.
pub(super) fn plain(object: &impl Serialize) -> Value {
    let mut value = serde_json::to_value(object).unwrap_or_default();
    strip(&mut value);
    value
}

fn strip(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.retain(|name, _| !NOT_OF_THE_INTERFACE.contains(&name.as_str()));
        fields.values_mut().for_each(strip);
    }
}
