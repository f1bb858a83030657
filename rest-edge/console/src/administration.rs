//! The pages of administrators, who run this installation. Core authorizes each call by the session, as for other
//! users.

mod abuse;
mod approvals;
mod audit;
mod ingest;
mod listing;
mod organizations;
mod users;

use axum::{
    Router,
    routing::{get, post},
};

use super::{Page, failure::see_other, form::Faults, visit::Administrator};

const APPROVALS: &str = "/console/administration";
const ORGANIZATIONS: &str = "/console/administration/organizations";
const USERS: &str = "/console/administration/users";
const AUDIT: &str = "/console/administration/audit";
const ABUSE: &str = "/console/administration/abuse";
const INGEST: &str = "/console/administration/ingest";

/// The layout marks this entry of its navigation on all administration pages.
const ACTIVE: &str = "administration";

/// The names and paths of all administration pages in the order of the navigation.
pub(crate) const TABS: [(&str, &str); 6] = [
    ("Approvals", APPROVALS),
    ("Organizations", ORGANIZATIONS),
    ("Users", USERS),
    ("Audit log", AUDIT),
    ("Abuse", ABUSE),
    ("Ingest", INGEST),
];

/// A form about one resource that core refused. The default is no such form.
#[derive(Default)]
struct RefusedForm {
    id: String,
    /// The typed text.
    text: String,
    faults: Faults,
}

impl RefusedForm {
    /// The typed text if the form is about this resource.
    fn typed(&self, id: &str) -> Option<&str> {
        (self.id == id).then_some(self.text.as_str())
    }

    /// The fault of a field if the form is about this resource.
    fn fault(&self, id: &str, field: &str) -> Option<&str> {
        self.faults.field(field).filter(|_| self.id == id)
    }
}

pub(super) fn routes() -> Router {
    Router::new()
        .route(APPROVALS, get(approvals::show))
        .route("/console/administration/projects/{id}/approve", post(approvals::approve).get(to_approvals))
        .route("/console/administration/projects/{id}/refuse", post(approvals::refuse).get(to_approvals))
        .route(
            "/console/administration/projects/{id}/withdraw",
            get(approvals::ask_to_withdraw).post(approvals::withdraw),
        )
        .route(ORGANIZATIONS, get(organizations::show))
        .route("/console/administration/organizations/{id}/plan", post(organizations::set_plan).get(to_organizations))
        .route(USERS, get(users::show))
        .route("/console/administration/users/invite", post(users::invite).get(to_users))
        .route("/console/administration/users/administrator", post(users::make_administrator).get(to_users))
        .route("/console/administration/users/confirm", post(users::confirm).get(to_users))
        .route("/console/administration/users/reset-link", post(users::make_reset_link).get(to_users))
        .route(
            "/console/administration/users/{id}/administrator",
            get(users::ask_to_unmake_administrator).post(users::unmake_administrator),
        )
        .route(
            "/console/administration/users/{id}/factors",
            get(users::ask_to_remove_factors).post(users::remove_factors),
        )
        .route(users::LINK, get(users::show_link))
        .route(AUDIT, get(audit::show))
        .route(ABUSE, get(abuse::show))
        .route(INGEST, get(ingest::show))
}

// The browser keeps the address of a form that failed. A reload redirects to the page with the form.

async fn to_approvals(_: Administrator) -> Page {
    Ok(see_other(APPROVALS))
}

async fn to_organizations(_: Administrator) -> Page {
    Ok(see_other(ORGANIZATIONS))
}

async fn to_users(_: Administrator) -> Page {
    Ok(see_other(USERS))
}
