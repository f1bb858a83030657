//! What a project's keys can read: theses, profiles and tokens, and whether somebody posted in time.

mod chart;
mod profile;
mod rows;
mod search;
mod theses;
mod thesis;
mod token;
mod verify;

use std::sync::Arc;

use axum::{Router, routing::get};
use thesis_proto::error::{ApiError, ErrorCode};

use crate::console::{Console, view::Failed};

/// The tab of the workspace that these pages are in.
const TAB: &str = "/explore";
/// The page with the list of theses.
const THESES: &str = "/explore/theses";
/// The page that verifies a thesis.
const VERIFY: &str = "/explore/verify";

/// The routes.
pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/projects/{id}/{environment}/explore", get(search::show))
        .route("/console/projects/{id}/{environment}/explore/theses", get(theses::show))
        .route("/console/projects/{id}/{environment}/explore/theses/{thesis}", get(thesis::show))
        .route("/console/projects/{id}/{environment}/explore/profiles/{reference}", get(profile::show))
        .route("/console/projects/{id}/{environment}/explore/tokens/{reference}", get(token::show))
        .route("/console/projects/{id}/{environment}/explore/verify", get(verify::show))
}

/// Why a thing is not shown. A reference that can name nothing is as one that names nothing.
fn missing(error: ApiError) -> Failed {
    if error.code == ErrorCode::ValidationFailed { Failed::missing() } else { error.into() }
}
