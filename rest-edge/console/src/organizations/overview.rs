//! An organization with its projects, and its name.

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::v1;

use super::{access::OrganizationAccess, overview_path};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    page_query::PageQuery,
    view::{Badge, Layout, render},
    visit::SignedIn,
};

const DONE: &[(&str, &str)] = &[
    ("created", "The organization is created. You are its owner."),
    ("renamed", "The organization has its new name."),
    ("factor-required", "Members need a second factor now."),
    ("factor-not-required", "Members need no second factor any more."),
];

/// The event that leads to the page of an organization.
enum OverviewState<'a> {
    /// A link, or a successful form with its word for the notice.
    Arrived(&'a str),
    /// A failed change of the name, with the typed name.
    Renaming(&'a str, Faults),
    /// A failed button.
    Pressed(Faults),
}

#[derive(Deserialize)]
pub(super) struct RenameForm {
    #[serde(default)]
    name: String,
    revision: Option<u64>,
}

/// The state of a project's live access.
fn live_access(project: &v1::Project) -> Badge {
    let (word, class) = if project.live_approved {
        ("Approved", "good")
    } else if project.live_requested_at.is_some() {
        ("Asked for", "warn")
    } else if project.live_refusal.is_some() {
        ("Refused", "bad")
    } else if project.live_withdrawn_at.is_some() {
        ("Withdrawn", "bad")
    } else {
        ("Not asked for", "")
    };
    Badge { word, class }
}

#[derive(Template)]
#[template(path = "organization.html")]
struct OverviewPage<'a> {
    layout: Layout,
    access: OrganizationAccess,
    projects: Vec<v1::Project>,
    archived: Vec<v1::Project>,
    name: &'a str,
    faults: &'a Faults,
}

async fn page(signed_in: &SignedIn, id: &str, state: OverviewState<'_>) -> Page {
    let access = OrganizationAccess::of(signed_in, id, "projects")?;
    let message = v1::AccountServiceListProjectsRequest { organization_id: id.to_owned() };
    let projects = signed_in.core().accounts.list_projects(signed_in.request(message)).await?.into_inner().data;
    let (archived, projects): (Vec<_>, Vec<_>) = projects.into_iter().partition(|project| project.archived);

    let present = access.name.clone();
    let (done, name, faults) = match state {
        OverviewState::Arrived(done) => (done, present.as_str(), Faults::none()),
        OverviewState::Renaming(name, faults) => ("", name, faults),
        OverviewState::Pressed(faults) => ("", present.as_str(), faults),
    };
    let page = OverviewPage {
        layout: Layout::of(signed_in, &present, "organizations").with_notice(done, DONE),
        access,
        projects,
        archived,
        name,
        faults: &faults,
    };
    render(faults.status(), &page)
}

pub(super) async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    page(&signed_in, &id, OverviewState::Arrived(query.text("done"))).await
}

#[derive(Deserialize)]
pub(super) struct FactorForm {
    #[serde(default)]
    required: String,
}

/// Demands a second factor of all members, or no longer.
pub(super) async fn require_factor(
    signed_in: SignedIn,
    Path(id): Path<String>,
    Posted(form): Posted<FactorForm>,
) -> Page {
    signed_in.membership(&id)?;
    let required = form.required == "true";
    let message = v1::RequireSecondFactorRequest { organization_id: id.clone(), required };
    match signed_in.core().accounts.require_second_factor(signed_in.request(message)).await {
        Ok(_) => {
            let done = if required { "factor-required" } else { "factor-not-required" };
            Ok(see_other(&format!("{}?done={done}", overview_path(&id))))
        }
        Err(status) => page(&signed_in, &id, OverviewState::Pressed(Faults::of(&status)?)).await,
    }
}

pub(super) async fn rename(signed_in: SignedIn, Path(id): Path<String>, Posted(form): Posted<RenameForm>) -> Page {
    signed_in.membership(&id)?;
    let message = v1::UpdateOrganizationRequest { id: id.clone(), name: form.name.clone(), revision: form.revision };
    match signed_in.core().accounts.update_organization(signed_in.request(message)).await {
        Ok(_) => Ok(see_other(&format!("{}?done=renamed", overview_path(&id)))),
        Err(status) => page(&signed_in, &id, OverviewState::Renaming(&form.name, Faults::of(&status)?)).await,
    }
}
