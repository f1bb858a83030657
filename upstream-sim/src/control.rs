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

use crate::shared::Sim;

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
