//! `GET /tokens/{chain}/{address}` and `GET /tokens?symbol=`.

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use serde::{Deserialize, Serialize};

use super::{Lookup, respond};
use crate::{
    response::{Refused, bytes_of},
    shared::Sim,
    world::Token,
};

#[derive(Deserialize)]
pub(super) struct TokenQuery {
    symbol: Option<String>,
}

#[derive(Serialize)]
struct TokenList<'a> {
    data: Vec<&'a Token>,
}

pub(super) async fn by_address(State(sim): State<Sim>, Path((chain, address)): Path<(String, String)>) -> Response {
    respond(&sim, Lookup::Token, move |world| {
        let number = world.tokens.number(&chain, &address).ok_or_else(Refused::missing)?;
        Ok(bytes_of(&**world.tokens.at(number)))
    })
    .await
}

pub(super) async fn by_symbol(State(sim): State<Sim>, Query(query): Query<TokenQuery>) -> Response {
    respond(&sim, Lookup::TokensBySymbol, move |world| {
        let symbol = query.symbol.ok_or_else(|| Refused::wrong("symbol is missing"))?;
        Ok(bytes_of(&TokenList { data: world.tokens.by_symbol(&symbol).collect() }))
    })
    .await
}
