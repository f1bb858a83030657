//! `GET /profiles/{id}`, `GET /profiles?handle=` and `GET /profiles/{id}/wallets`.

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use serde::Deserialize;
use serde_json::json;

use super::{Lookup, respond};
use crate::{
    response::{Refused, bytes_of},
    shared::Sim,
};

#[derive(Deserialize)]
pub(super) struct ProfileQuery {
    handle: Option<String>,
}

pub(super) async fn by_id(State(sim): State<Sim>, Path(id): Path<String>) -> Response {
    respond(&sim, Lookup::Profile, move |world| {
        let number = world.profiles.number(&id).ok_or_else(Refused::missing)?;
        Ok(bytes_of(&**world.profiles.at(number)))
    })
    .await
}

pub(super) async fn by_handle(State(sim): State<Sim>, Query(query): Query<ProfileQuery>) -> Response {
    respond(&sim, Lookup::ProfileByHandle, move |world| {
        let handle = query.handle.ok_or_else(|| Refused::wrong("handle is missing"))?;
        let profile = world.profiles.by_handle(&handle).ok_or_else(Refused::missing)?;
        Ok(bytes_of(&**profile))
    })
    .await
}

pub(super) async fn wallets(State(sim): State<Sim>, Path(id): Path<String>) -> Response {
    respond(&sim, Lookup::Wallets, move |world| {
        let number = world.profiles.number(&id).ok_or_else(Refused::missing)?;
        Ok(bytes_of(&json!({ "data": world.profiles.wallets(number) })))
    })
    .await
}
