//! Pages of projects: their names, live access, keys and usage.

mod keys;
mod usage;

use std::{collections::HashMap, sync::Arc};

use askama::Template;
use axum::{
    Router,
    extract::{Path, Query, State},
    routing::{get, post},
};
use futures::future::try_join_all;
use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    metadata, v1,
};

use self::keys::KeyRow;
use super::{
    Console, Page,
    form::{Faults, NoFields, Posted},
    organizations::to_console,
    view::{Failed, Layout, render, see_other, time},
    visit::SignedIn,
};

/// What a project's page says after a change.
const DONE: &[(&str, &str)] = &[
    ("created", "The project is created."),
    ("renamed", "The project has its new name."),
    ("asked", "Live access is asked for. An administrator decides."),
    ("archived", "The project is archived. Its keys work no more."),
    ("revoked", "The key is revoked. It works no more."),
];

/// The routes of projects.
pub(crate) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/organizations/{id}/projects", get(new_project).post(create))
        .route("/console/projects/{id}", get(show))
        .route("/console/projects/{id}/name", post(rename).get(to_project))
        .route("/console/projects/{id}/archive", post(archive).get(to_project))
        .route("/console/projects/{id}/live-access", post(ask_for_live_access).get(to_project))
        .route("/console/projects/{id}/keys", get(keys::new).post(keys::create))
        .route("/console/projects/{id}/usage", get(usage::show))
        .route("/console/keys/{id}/revoke", post(keys::revoke).get(to_console))
}

/// A project, and what the user is in its organization.
pub(super) struct Place {
    pub(super) project: v1::Project,
    pub(super) organization_name: String,
    role: v1::Role,
}

impl Place {
    /// Whether the user may change the project.
    pub(super) fn may_change(&self) -> bool {
        !self.project.archived && self.role >= v1::Role::Developer
    }

    /// The environment whose data the project's page leads to.
    fn environment(&self) -> &'static str {
        if self.project.live_approved { metadata::LIVE } else { metadata::TEST }
    }

    /// Whether the user may revoke the project's keys, which archived projects have too.
    fn may_revoke(&self) -> bool {
        self.role >= v1::Role::Developer
    }

    /// Whether the user may archive the project.
    fn may_archive(&self) -> bool {
        !self.project.archived && self.role == v1::Role::Owner
    }
}

/// The path of a project's page.
fn path(id: &str) -> String {
    format!("/console/projects/{id}")
}

/// The project, if it is of the membership's organization.
async fn find_in(
    console: &Console,
    signed_in: &SignedIn,
    membership: &v1::Membership,
    id: &str,
) -> Result<Option<Place>, Failed> {
    let organization = membership.organization.clone().unwrap_or_default();
    let message = v1::AccountServiceListProjectsRequest { organization_id: organization.id };
    let projects = match console.core.accounts.list_projects(signed_in.visit.request(message)).await {
        Ok(answer) => answer.into_inner().data,
        // The user was a member a moment ago.
        Err(status) if ApiError::from_status(&status).code == ErrorCode::OrganizationNotFound => Vec::new(),
        Err(status) => return Err(status.into()),
    };
    let found = projects.into_iter().find(|project| project.id == id);
    Ok(found.map(|project| Place { project, organization_name: organization.name, role: membership.role() }))
}

/// Finds a project of the user's organizations. Others are not there.
pub(super) async fn find(console: &Console, signed_in: &SignedIn, id: &str) -> Result<Place, Failed> {
    let memberships = signed_in.account.memberships.iter();
    let found = try_join_all(memberships.map(|membership| find_in(console, signed_in, membership, id))).await?;
    found.into_iter().flatten().next().ok_or_else(Failed::missing)
}

/// The address of a form that failed stays in the browser: a reload of it leads to the page that has the form.
async fn to_project(State(console): State<Arc<Console>>, signed_in: SignedIn, Path(id): Path<String>) -> Page {
    Ok(see_other(&path(&find(&console, &signed_in, &id).await?.project.id)))
}

/// The page on which a project is created.
#[derive(Template)]
#[template(path = "project_new.html")]
struct NewPage {
    layout: Layout,
    organization_id: String,
    organization_name: String,
    may_create: bool,
    typed_name: String,
    faults: Faults,
}

/// The name of a new project.
#[derive(Debug, Deserialize)]
struct NewProject {
    #[serde(default)]
    name: String,
    /// The token of a form whose work is done once.
    #[serde(default)]
    once: String,
}

fn show_new(signed_in: &SignedIn, organization_id: &str, typed_name: String, faults: Faults) -> Page {
    let membership = signed_in.membership(organization_id)?;
    let organization = membership.organization.clone().unwrap_or_default();
    let status = faults.status();
    let page = NewPage {
        layout: Layout::of(signed_in, "New project", "organizations"),
        organization_id: organization.id,
        organization_name: organization.name,
        may_create: membership.role() >= v1::Role::Developer,
        typed_name,
        faults,
    };
    render(status, &page)
}

async fn new_project(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    show_new(&signed_in, &id, String::new(), Faults::none())
}

async fn create(
    State(console): State<Arc<Console>>,
    signed_in: SignedIn,
    Path(id): Path<String>,
    Posted(new): Posted<NewProject>,
) -> Page {
    let (organization_id, name, once) = (id.clone(), new.name.clone(), signed_in.visit.once(&new.once));
    let message = v1::AccountServiceCreateProjectRequest { organization_id, name, once };
    match console.core.accounts.create_project(signed_in.visit.request(message)).await {
        Ok(answer) => {
            let project = answer.into_inner().project.unwrap_or_default();
            Ok(see_other(&format!("{}?done=created", path(&project.id))))
        }
        Err(status) => show_new(&signed_in, &id, new.name, Faults::of(&status)?),
    }
}

/// The page of a project.
#[derive(Template)]
#[template(path = "project.html")]
struct ProjectPage {
    layout: Layout,
    place: Place,
    created: String,
    /// Since when live access is asked for.
    asked: Option<String>,
    keys: Vec<KeyRow>,
    revoked_keys: Vec<KeyRow>,
    /// How many keys are revoked; the page shows the latest.
    revoked_count: usize,
    /// What was typed, or else the project's name.
    typed_name: String,
    faults: Faults,
}

/// What a project's page shows beside the project.
struct Shown<'a> {
    done: Option<&'a str>,
    typed_name: Option<String>,
    faults: Faults,
}

async fn show_project(console: &Console, signed_in: &SignedIn, id: &str, shown: Shown<'_>) -> Page {
    let place = find(console, signed_in, id).await?;
    let rows = keys::list(console, signed_in, &place).await?;
    let (revoked_keys, keys): (Vec<_>, Vec<_>) = rows.into_iter().partition(|key| key.revoked.is_some());
    let status = shown.faults.status();
    let page = ProjectPage {
        layout: Layout::of(signed_in, &place.project.name, "organizations").with_notice(shown.done, DONE),
        created: time(place.project.created_at.as_ref()),
        asked: place.project.live_requested_at.as_ref().map(|at| time(Some(at))),
        keys,
        revoked_count: revoked_keys.len(),
        revoked_keys: revoked_keys.into_iter().take(keys::MAX_REVOKED).collect(),
        typed_name: shown.typed_name.unwrap_or_else(|| place.project.name.clone()),
        place,
        faults: shown.faults,
    };
    render(status, &page)
}

async fn show(
    State(console): State<Arc<Console>>,
    signed_in: SignedIn,
    Path(id): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Page {
    let done = query.get("done").map(String::as_str);
    show_project(&console, &signed_in, &id, Shown { done, typed_name: None, faults: Faults::none() }).await
}

/// A project's new name, and the revision of the project that its page showed.
#[derive(Debug, Deserialize)]
struct Renaming {
    #[serde(default)]
    name: String,
    #[serde(default)]
    revision: String,
}

async fn rename(
    State(console): State<Arc<Console>>,
    signed_in: SignedIn,
    Path(id): Path<String>,
    Posted(renaming): Posted<Renaming>,
) -> Page {
    let revision = renaming.revision.parse().ok();
    let message = v1::UpdateProjectRequest { id: id.clone(), name: renaming.name.clone(), revision };
    match console.core.accounts.update_project(signed_in.visit.request(message)).await {
        Ok(_) => Ok(see_other(&format!("{}?done=renamed", path(&id)))),
        Err(status) => {
            let shown = Shown { done: None, typed_name: Some(renaming.name), faults: Faults::of(&status)? };
            show_project(&console, &signed_in, &id, shown).await
        }
    }
}

/// Ends a button's change: back to the project's page, or the page with what was wrong.
async fn after<T>(
    console: &Console,
    signed_in: &SignedIn,
    id: &str,
    outcome: Result<T, tonic::Status>,
    done: &str,
) -> Page {
    match outcome {
        Ok(_) => Ok(see_other(&format!("{}?done={done}", path(id)))),
        Err(status) => {
            let shown = Shown { done: None, typed_name: None, faults: Faults::of(&status)? };
            show_project(console, signed_in, id, shown).await
        }
    }
}

async fn archive(
    State(console): State<Arc<Console>>,
    signed_in: SignedIn,
    Path(id): Path<String>,
    _: Posted<NoFields>,
) -> Page {
    let message = v1::AccountServiceArchiveProjectRequest { id: id.clone() };
    let outcome = console.core.accounts.archive_project(signed_in.visit.request(message)).await;
    after(&console, &signed_in, &id, outcome, "archived").await
}

async fn ask_for_live_access(
    State(console): State<Arc<Console>>,
    signed_in: SignedIn,
    Path(id): Path<String>,
    _: Posted<NoFields>,
) -> Page {
    let message = v1::RequestLiveAccessRequest { project_id: id.clone() };
    let outcome = console.core.accounts.request_live_access(signed_in.visit.request(message)).await;
    after(&console, &signed_in, &id, outcome, "asked").await
}
