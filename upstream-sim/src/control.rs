//! `/sim`: the routes by which a test reads and changes the simulator.

mod frames;
mod profiles;
mod settings;
mod state;
mod theses;
mod tokens;
mod truth;

use axum::{
    Router,
    routing::{get, patch, post, put},
};
use serde::Serialize;
use serde_json::Value;

use crate::shared::Sim;

/// Fields of objects that the interface does not have.
const NOT_OF_THE_INTERFACE: [&str; 5] = ["balance", "email", "pnl_usd", "positions", "price_usd"];

/// The routes under `/sim`.
pub(crate) fn routes() -> Router<Sim> {
    Router::new()
        .route("/state", get(state::state))
        .route("/theses", get(truth::theses).post(theses::create))
        .route("/theses/{id}", patch(theses::change).delete(theses::delete))
        .route("/profiles", get(truth::profiles).post(profiles::create))
        .route("/profiles/{id}", patch(profiles::change))
        .route("/profiles/{id}/wallets", put(profiles::set_wallets))
        .route("/tokens", get(truth::tokens).post(tokens::create))
        .route("/tokens/{chain}/{address}", patch(tokens::change))
        .route("/faults", get(settings::faults).put(settings::set_faults))
        .route("/rate", put(settings::set_rate))
        .route("/burst", post(settings::burst))
        .route("/frames", post(frames::append))
}

/// An object with the interface's fields alone.
fn plain(object: &impl Serialize) -> Value {
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
