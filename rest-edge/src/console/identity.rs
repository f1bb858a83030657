//! The pages of people themselves: sign-up, sign-in, one-time links, their account.

use std::sync::Arc;

use axum::Router;

use super::Console;

pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
}
