//! The data that a project's keys can read: theses, profiles, tokens, and the verification of theses.

mod chart;
mod facts;
mod profile;
mod receipt;
mod search;
mod theses;
mod thesis;
mod token;
mod verify;

use axum::{Router, routing::get};
use thesis_proto::error::{ApiError, ErrorCode};

use crate::failure::Failed;

const TAB: &str = "/explore";
const THESES: &str = "/explore/theses";
const VERIFY: &str = "/explore/verify";
const VERDICT_RECEIPT: &str = "/explore/verify/receipt";

pub(super) fn routes() -> Router {
    Router::new()
        .route("/console/projects/{id}/{environment}/explore", get(search::show))
        .route("/console/projects/{id}/{environment}/explore/theses", get(theses::show))
        .route("/console/projects/{id}/{environment}/explore/theses/{thesis}", get(thesis::show))
        .route("/console/projects/{id}/{environment}/explore/theses/{thesis}/receipt", get(receipt::of_thesis))
        .route("/console/projects/{id}/{environment}/explore/profiles/{reference}", get(profile::show))
        .route("/console/projects/{id}/{environment}/explore/tokens/{reference}", get(token::show))
        .route("/console/projects/{id}/{environment}/explore/verify", get(verify::show))
        .route("/console/projects/{id}/{environment}/explore/verify/receipt", get(receipt::of_verdict))
}

/// Turns an error into a failure. An invalid reference counts as a missing resource.
fn missing(error: ApiError) -> Failed {
    if error.code == ErrorCode::ValidationFailed { Failed::missing() } else { error.into() }
}
