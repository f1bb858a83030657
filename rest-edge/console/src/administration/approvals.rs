//! Live access: pending requests of projects, and the projects that have it.

use std::collections::HashMap;

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::{time::to_millis, v1};

use super::{ACTIVE, APPROVALS, listing::Listing};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    view::{Layout, render, time},
    visit::{Administrator, SignedIn},
};

/// A page shows at most this many pending requests, each with a form.
const MAX_REQUESTS: usize = 25;

const NOTICES: &[(&str, &str)] = &[
    ("approved", "Live access was approved: the project's live keys work now."),
    ("refused", "Live access was refused. The organization reads the reason on the project's page."),
    ("withdrawn", "Live access was withdrawn: the project's live keys work no more."),
];

/// A project with a pending request for live access.
struct LiveRequest {
    id: String,
    name: String,
    organization: String,
    organization_id: String,
    requested_at: String,
    /// The refusal's reason as the administrator typed it. `fault` has the rule that it breaks.
    reason: String,
    fault: Option<String>,
}

struct LiveProject {
    id: String,
    name: String,
    organization: String,
    organization_id: String,
}

#[derive(Template)]
#[template(path = "administration.html")]
struct ApprovalsPage {
    layout: Layout,
    tab: &'static str,
    alert: Option<String>,
    /// The oldest request comes first.
    requests: Vec<LiveRequest>,
    /// Number of requests that this page does not show.
    more: usize,
    find: String,
    live: Listing<LiveProject>,
}

struct RefusedForm {
    project_id: String,
    reason: String,
    faults: Faults,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct RefusalForm {
    reason: String,
}

async fn page(signed_in: &SignedIn, query: &PageQuery, attempt: Option<RefusedForm>) -> Page {
    let (admin, visit) = (&signed_in.core().admin, &signed_in.visit);
    let organizations = admin.list_organizations(visit.request(v1::ListOrganizationsRequest {})).await?;
    let names: HashMap<_, _> = organizations.into_inner().data.into_iter().map(|row| (row.id, row.name)).collect();
    let name = |id: &str| names.get(id).cloned().unwrap_or_else(|| id.to_owned());
    let request = v1::ListProjectsRequest { organization_id: None };
    let projects = admin.list_projects(visit.request(request)).await?.into_inner().data;
    let in_use = || projects.iter().filter(|project| !project.archived);

    let mut waiting: Vec<_> = in_use().filter(|project| project.live_requested_at.is_some()).collect();
    waiting.sort_by_key(|project| project.live_requested_at.as_ref().map(to_millis));
    let requests = waiting.iter().take(MAX_REQUESTS).map(|project| {
        let attempt = attempt.as_ref().filter(|attempt| attempt.project_id == project.id);
        LiveRequest {
            id: project.id.clone(),
            name: project.name.clone(),
            organization: name(&project.organization_id),
            organization_id: project.organization_id.clone(),
            requested_at: time(project.live_requested_at.as_ref()),
            reason: attempt.map(|attempt| attempt.reason.clone()).unwrap_or_default(),
            fault: attempt.and_then(|attempt| attempt.faults.field("reason").map(str::to_owned)),
        }
    });

    let mut live: Vec<_> = in_use()
        .filter(|project| project.live_approved)
        .map(|project| LiveProject {
            id: project.id.clone(),
            name: project.name.clone(),
            organization: name(&project.organization_id),
            organization_id: project.organization_id.clone(),
        })
        .filter(|row| query.wants(&[&row.id, &row.name, &row.organization]))
        .collect();
    live.sort_by_cached_key(|row| (row.organization.to_lowercase(), row.name.to_lowercase(), row.id.clone()));

    let none = Faults::none();
    let faults = attempt.as_ref().map_or(&none, |attempt| &attempt.faults);
    let page = ApprovalsPage {
        layout: Layout::of(signed_in, "Approvals", ACTIVE).with_notice(query.text("done"), NOTICES),
        tab: APPROVALS,
        alert: faults.whole().map(str::to_owned),
        requests: requests.collect(),
        more: waiting.len().saturating_sub(MAX_REQUESTS),
        find: query.text("find").to_owned(),
        live: query.part(APPROVALS, live),
    };
    render(faults.status(), &page)
}

/// Redirects to the page after success, or shows the page with core's faults.
async fn finish_form<T>(
    signed_in: &SignedIn,
    outcome: Result<T, tonic::Status>,
    done: &str,
    (project_id, reason): (String, String),
) -> Page {
    let Err(status) = outcome else {
        return Ok(see_other(&format!("{APPROVALS}?done={done}")));
    };
    let faults = Faults::of(&status)?;
    page(signed_in, &PageQuery::default(), Some(RefusedForm { project_id, reason, faults })).await
}

pub(super) async fn show(Administrator(signed_in): Administrator, query: PageQuery) -> Page {
    page(&signed_in, &query, None).await
}

pub(super) async fn approve(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(NoFields {}): Posted<NoFields>,
) -> Page {
    let request = signed_in.request(v1::ApproveProjectRequest { id: id.clone() });
    let outcome = signed_in.core().admin.approve_project(request).await;
    finish_form(&signed_in, outcome, "approved", (id, String::new())).await
}

pub(super) async fn refuse(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(RefusalForm { reason }): Posted<RefusalForm>,
) -> Page {
    let message = v1::RefuseProjectRequest { id: id.clone(), reason: reason.clone() };
    let outcome = signed_in.core().admin.refuse_project(signed_in.request(message)).await;
    finish_form(&signed_in, outcome, "refused", (id, reason)).await
}

pub(super) async fn withdraw(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(NoFields {}): Posted<NoFields>,
) -> Page {
    let request = signed_in.request(v1::WithdrawProjectRequest { id: id.clone() });
    let outcome = signed_in.core().admin.withdraw_project(request).await;
    finish_form(&signed_in, outcome, "withdrawn", (id, String::new())).await
}
