//! Pages of webhooks: the list, one webhook, its changes and its secrets.

mod changes;
mod chart;
mod create;
mod facts;
mod form;
mod insight;
mod known;
mod list;
mod secret;
mod show;
mod verify;

use axum::{
    Router,
    extract::Path,
    response::Response,
    routing::{get, post},
};

use super::Workspace;
use crate::failure::see_other;

const TAB: &str = "/webhooks";

/// The path parameters: project, environment and webhook.
type WebhookPath = Path<(String, String, String)>;

pub(super) fn routes() -> Router {
    Router::new()
        .route("/console/projects/{id}/{environment}/webhooks", get(list::show).post(create::create))
        .route("/console/projects/{id}/{environment}/webhooks/new", get(create::new))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}", get(show::show).post(changes::edit))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/secret", get(secret::show))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/status", post(changes::set_status).get(back))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/rotate", post(changes::rotate).get(back))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/test", post(changes::send_test).get(back))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/replay", post(changes::replay).get(back))
        .route("/console/projects/{id}/{environment}/webhooks/{webhook}/delete", post(changes::delete).get(back))
}

/// Redirects from a form's address to the page with the form.
async fn back(workspace: Workspace, Path((_, _, id)): WebhookPath) -> Response {
    see_other(&workspace.webhook_path(&id))
}
