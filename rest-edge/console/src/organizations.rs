//! The pages of organizations: projects, members, invitations, the audit log and settings.

mod access;
pub(super) mod audit;
mod create;
mod invitations;
mod members;
mod overview;
mod settings;

use axum::{
    Router,
    extract::Path,
    routing::{get, post},
};

use super::{Page, failure::see_other, visit::SignedIn};

pub(crate) fn routes() -> Router {
    Router::new()
        .route("/console/organizations/new", get(create::show).post(create::create))
        .route("/console/organizations/{id}", get(overview::show))
        .route("/console/organizations/{id}/settings", get(settings::show))
        .route("/console/organizations/{id}/name", post(settings::rename).get(settings::to_settings))
        .route("/console/organizations/{id}/second-factor", post(settings::require_factor).get(settings::to_settings))
        .route("/console/organizations/{id}/members", get(members::show))
        .route("/console/organizations/{id}/members/{user}/role", post(members::change_role).get(to_members_of))
        .route("/console/organizations/{id}/members/{user}/remove", get(members::ask_to_remove).post(members::remove))
        .route("/console/organizations/{id}/invitations", post(invitations::create).get(to_members))
        .route("/console/invitations/{id}/delete", post(invitations::delete).get(to_console))
        .route("/console/organizations/{id}/invitations/created", get(invitations::created))
        .route("/console/organizations/{id}/audit", get(audit::show))
        .route("/console/organizations/{id}/audit.csv", get(audit::export))
}

fn overview_path(id: &str) -> String {
    format!("/console/organizations/{id}")
}

fn settings_path(id: &str) -> String {
    format!("/console/organizations/{id}/settings")
}

fn members_path(id: &str) -> String {
    format!("/console/organizations/{id}/members")
}

fn invitations_path(id: &str) -> String {
    format!("/console/organizations/{id}/invitations")
}

// The browser keeps the address of a form that failed. A reload redirects to the page with the form.

async fn to_members(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    signed_in.membership(&id)?;
    Ok(see_other(&members_path(&id)))
}

async fn to_members_of(signed_in: SignedIn, Path((id, _)): Path<(String, String)>) -> Page {
    to_members(signed_in, Path(id)).await
}

/// Redirects to the home page, for forms whose address names no page.
async fn to_console(_: SignedIn) -> Page {
    Ok(see_other("/console"))
}
