//! `/sim`: the routes by which a test reads and changes the simulator.

mod frames;
mod profiles;
mod settings;
mod state;
mod theses;
mod tokens;
mod truth;

use axum::Router;

use crate::shared::Sim;

/// The routes under `/sim`.
pub(crate) fn routes() -> Router<Sim> {
    Router::new()
        .merge(state::routes())
        .merge(truth::routes())
        .merge(settings::routes())
        .merge(theses::routes())
        .merge(profiles::routes())
        .merge(tokens::routes())
        .merge(frames::routes())
}
