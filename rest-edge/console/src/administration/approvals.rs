//! Live access: pending requests of projects, and the projects that have it.

use std::collections::HashMap;

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::{time::to_millis, v1};

use super::{ACTIVE, APPROVALS, RefusedForm, listing::Listing};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    question::Question,
    view::{Layout, render},
    visit::{Administrator, SignedIn},
};

/// A page shows at most this many pending requests, each with a form.
const MAX_REQUESTS: usize = 25;

const NOTICES: &[(&str, &str)] = &[
    ("approved", "Live access was approved: the project's live keys work now."),
    ("refused", "Live access was refused. The organization reads the reason on the project's page."),
    ("withdrawn", "Live access was withdrawn: the project's live keys work no more."),
];

#[derive(Template)]
#[template(path = "administration.html")]
struct ApprovalsPage {
    layout: Layout,
    tab: &'static str,
    /// The names of organizations by id.
    organizations: HashMap<String, String>,
    /// The projects with a pending request for live access. The oldest request comes first.
    requests: Vec<v1::Project>,
    /// Number of requests that this page does not show.
    more: usize,
    find: String,
    live: Listing<v1::Project>,
    refused: RefusedForm,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RefusalForm {
    reason: String,
}

/// The name of an organization, or its id if it has none.
fn name_of<'a>(organizations: &'a HashMap<String, String>, id: &'a str) -> &'a str {
    organizations.get(id).map_or(id, String::as_str)
}

async fn page(signed_in: &SignedIn, query: &PageQuery, refused: RefusedForm) -> Page {
    let request = signed_in.request(v1::ListOrganizationsRequest {});
    let organizations = signed_in.core().admin.list_organizations(request).await?;
    let organizations: HashMap<_, _> =
        organizations.into_inner().data.into_iter().map(|row| (row.id, row.name)).collect();
    let request = signed_in.request(v1::ListProjectsRequest { organization_id: None });
    let mut projects = signed_in.core().admin.list_projects(request).await?.into_inner().data;
    projects.retain(|project| !project.archived);

    let mut requests = projects.clone();
    requests.retain(|project| project.live_requested_at.is_some());
    requests.sort_by_key(|project| project.live_requested_at.as_ref().map(to_millis));
    let more = requests.len().saturating_sub(MAX_REQUESTS);
    requests.truncate(MAX_REQUESTS);

    let organization = |project: &v1::Project| name_of(&organizations, &project.organization_id).to_owned();
    let mut live = projects;
    live.retain(|row| row.live_approved && query.wants(&[&row.id, &row.name, &organization(row)]));
    live.sort_by_cached_key(|row| (organization(row).to_lowercase(), row.name.to_lowercase(), row.id.clone()));

    let page = ApprovalsPage {
        layout: Layout::of(signed_in, "Approvals", ACTIVE).with_notice(query.text("done"), NOTICES),
        tab: APPROVALS,
        organizations,
        requests,
        more,
        find: query.text("find").to_owned(),
        live: query.part(APPROVALS, live),
        refused,
    };
    render(page.refused.faults.status(), &page)
}

/// Redirects to the page after success, or shows the page with core's faults.
async fn finish_form<T>(
    signed_in: &SignedIn,
    outcome: Result<T, tonic::Status>,
    done: &str,
    (id, text): (String, String),
) -> Page {
    let Err(status) = outcome else {
        return Ok(see_other(&format!("{APPROVALS}?done={done}")));
    };
    let faults = Faults::of(&status)?;
    page(signed_in, &PageQuery::default(), RefusedForm { id, text, faults }).await
}

pub(super) async fn show(Administrator(signed_in): Administrator, query: PageQuery) -> Page {
    page(&signed_in, &query, RefusedForm::default()).await
}

pub(super) async fn approve(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(NoFields {}): Posted<NoFields>,
) -> Page {
    let request = signed_in.request(v1::ApproveProjectRequest { id: id.clone() });
    let outcome = signed_in.change(signed_in.core().admin.approve_project(request)).await;
    finish_form(&signed_in, outcome, "approved", (id, String::new())).await
}

pub(super) async fn refuse(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(RefusalForm { reason }): Posted<RefusalForm>,
) -> Page {
    let message = v1::RefuseProjectRequest { id: id.clone(), reason: reason.clone() };
    let outcome = signed_in.change(signed_in.core().admin.refuse_project(signed_in.request(message))).await;
    finish_form(&signed_in, outcome, "refused", (id, reason)).await
}

/// Asks before live access is withdrawn.
pub(super) async fn ask_to_withdraw(Administrator(signed_in): Administrator, Path(id): Path<String>) -> Page {
    let request = signed_in.request(v1::ListProjectsRequest { organization_id: None });
    let projects = signed_in.core().admin.list_projects(request).await?.into_inner().data;
    let Some(project) = projects.into_iter().find(|project| project.id == id && project.live_approved) else {
        return Ok(see_other(APPROVALS));
    };
    let question = Question {
        layout: Layout::of(&signed_in, &format!("Withdraw live access of {}?", project.name), ACTIVE),
        consequence: "All live keys of the project stop working at once, and its live streams and webhooks end. \
                      The organization can ask for live access again."
            .to_owned(),
        action: format!("{APPROVALS}/projects/{id}/withdraw"),
        button: "Withdraw live access",
        name: None,
        reason: Some(String::new()),
        back: APPROVALS.to_owned(),
        faults: Faults::none(),
    };
    question.ask()
}

pub(super) async fn withdraw(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(RefusalForm { reason }): Posted<RefusalForm>,
) -> Page {
    let given = Some(reason.clone()).filter(|reason| !reason.trim().is_empty());
    let request = signed_in.request(v1::WithdrawProjectRequest { id: id.clone(), reason: given });
    let outcome = signed_in.change(signed_in.core().admin.withdraw_project(request)).await;
    finish_form(&signed_in, outcome, "withdrawn", (id, reason)).await
}
