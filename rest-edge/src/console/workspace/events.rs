//! To be written.

use std::sync::Arc;

use axum::Router;

use crate::console::Console;

/// The routes.
pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
}
