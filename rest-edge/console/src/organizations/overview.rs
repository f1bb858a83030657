//! An organization with its projects.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use thesis_proto::v1;

use super::access::OrganizationAccess;
use crate::{
    Page,
    page_query::PageQuery,
    view::{Badge, Layout, render},
    visit::SignedIn,
};

const DONE: &[(&str, &str)] =
    &[("created", "The organization is created, and you are its owner. Next, create a project.")];

/// The state of a project's live access.
fn live_access(project: &v1::Project) -> Badge {
    let (word, class) = if project.live_approved {
        ("Approved", "good")
    } else if project.live_requested_at.is_some() {
        ("Requested", "warn")
    } else if project.live_refusal.is_some() {
        ("Refused", "bad")
    } else if project.live_withdrawn_at.is_some() {
        ("Withdrawn", "bad")
    } else {
        ("Not requested", "")
    };
    Badge { word, class }
}

#[derive(Template)]
#[template(path = "organization.html")]
struct OverviewPage {
    layout: Layout,
    access: OrganizationAccess,
    projects: Vec<v1::Project>,
    archived: Vec<v1::Project>,
}

pub(super) async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    let access = OrganizationAccess::of(&signed_in, &id)?;
    let message = v1::AccountServiceListProjectsRequest { organization_id: id };
    let projects = signed_in.core().accounts.list_projects(signed_in.request(message)).await?.into_inner().data;
    // The frame shows them too. This is the first value, so it is kept.
    let _ = signed_in.projects.set(projects.clone());
    let (archived, projects): (Vec<_>, Vec<_>) = projects.into_iter().partition(|project| project.archived);
    let page = OverviewPage {
        layout: Layout::of(&signed_in, &access.name, "organizations").with_notice(query.text("done"), DONE),
        access,
        projects,
        archived,
    };
    render(StatusCode::OK, &page)
}
