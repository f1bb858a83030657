//! `GET /tokens/{chain}/{address}` and `GET /tokens?symbol=`.

use axum::{
    Router,
    extract::{Path, Query, State},
    response::Response,
    routing::get,
};
use serde::{Deserialize, Serialize};

use super::{Lookup, respond};
use crate::{
    response::{Refused, bytes_of},
    shared::Sim,
    world::Token,
};

#[derive(Deserialize)]
struct TokenQuery {
    symbol: Option<String>,
}

#[derive(Serialize)]
struct TokenList<'a> {
    data: Vec<&'a Token>,
}

pub(super) fn routes() -> Router<Sim> {
    Router::new().route("/tokens", get(by_symbol)).route("/tokens/{chain}/{address}", get(by_address))
}

async fn by_address(State(sim): State<Sim>, Path((chain, address)): Path<(String, String)>) -> Response {
    respond(&sim, Lookup::Token, move |world| {
        let number = world.tokens.number(&chain, &address).ok_or_else(Refused::missing)?;
        Ok(bytes_of(&**world.tokens.at(number)))
    })
    .await
}

async fn by_symbol(State(sim): State<Sim>, Query(query): Query<TokenQuery>) -> Response {
    respond(&sim, Lookup::TokensBySymbol, move |world| {
        let symbol = query.symbol.ok_or_else(|| Refused::wrong("symbol is missing"))?;
        Ok(bytes_of(&TokenList { data: world.tokens.by_symbol(&symbol).collect() }))
    })
    .await
}
