//! Pages of projects: their names, live access, keys and usage.

mod keys;
mod usage;

use askama::Template;
use axum::{
    Router,
    extract::Path,
    routing::{get, post},
};
use futures::future::try_join_all;
use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    metadata,
    time::to_millis,
    v1,
};

use super::{
    Page,
    failure::{Failed, see_other},
    form::{Faults, NoFields, Posted},
    organizations::to_console,
    page_query::PageQuery,
    view::{Layout, render},
    visit::SignedIn,
};

/// The page shows at most this many revoked keys.
const MAX_REVOKED: usize = 20;

/// The notices after a change, by the word in `?done=`.
const DONE: &[(&str, &str)] = &[
    ("created", "The project is created."),
    ("renamed", "The project has its new name."),
    ("asked", "Live access is asked for. An administrator decides."),
    ("archived", "The project is archived. Its keys work no more."),
    ("revoked", "The key is revoked. It works no more."),
];

pub(crate) fn routes() -> Router {
    Router::new()
        .route("/console/organizations/{id}/projects", get(new_project).post(create))
        .route("/console/projects/{id}", get(show))
        .route("/console/projects/{id}/name", post(rename).get(to_project))
        .route("/console/projects/{id}/archive", post(archive).get(to_project))
        .route("/console/projects/{id}/live-access", post(ask_for_live_access).get(to_project))
        .route("/console/projects/{id}/keys", get(keys::new).post(keys::create))
        .route("/console/projects/{id}/keys/created", get(keys::created))
        .route("/console/projects/{id}/keys/{key}/roll", get(keys::show_roll).post(keys::roll))
        .route("/console/projects/{id}/usage", get(usage::show))
        .route("/console/keys/{id}/revoke", post(keys::revoke).get(to_console))
}

/// A project and the role of the user in its organization.
pub(super) struct ProjectAccess {
    pub(super) project: v1::Project,
    pub(super) organization_name: String,
    role: v1::Role,
}

impl ProjectAccess {
    pub(super) fn may_change(&self) -> bool {
        !self.project.archived && self.role >= v1::Role::Developer
    }

    /// The project's page links to the data of this environment.
    fn environment(&self) -> &'static str {
        if self.project.live_approved { metadata::LIVE } else { metadata::TEST }
    }

    /// Archived projects have keys too, which can be revoked.
    fn may_revoke(&self) -> bool {
        self.role >= v1::Role::Developer
    }

    fn may_archive(&self) -> bool {
        !self.project.archived && self.role == v1::Role::Owner
    }
}

fn path(id: &str) -> String {
    format!("/console/projects/{id}")
}

/// Finds a project in the organization of a membership.
async fn find_in(signed_in: &SignedIn, membership: &v1::Membership, id: &str) -> Result<Option<ProjectAccess>, Failed> {
    let organization = membership.organization.clone().unwrap_or_default();
    let message = v1::AccountServiceListProjectsRequest { organization_id: organization.id };
    let projects = match signed_in.core().accounts.list_projects(signed_in.request(message)).await {
        Ok(answer) => answer.into_inner().data,
        // The membership ended after the account was read.
        Err(status) if ApiError::from_status(&status).code == ErrorCode::OrganizationNotFound => Vec::new(),
        Err(status) => return Err(status.into()),
    };
    let found = projects.into_iter().find(|project| project.id == id);
    Ok(found.map(|project| ProjectAccess { project, organization_name: organization.name, role: membership.role() }))
}

/// Finds a project in the user's organizations. Projects of others count as missing.
pub(super) async fn find(signed_in: &SignedIn, id: &str) -> Result<ProjectAccess, Failed> {
    let memberships = signed_in.account.memberships.iter();
    let found = try_join_all(memberships.map(|membership| find_in(signed_in, membership, id))).await?;
    found.into_iter().flatten().next().ok_or_else(Failed::missing)
}

/// The browser keeps the address of a form that failed. A reload redirects to the page with the form.
async fn to_project(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    Ok(see_other(&path(&find(&signed_in, &id).await?.project.id)))
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
    let page = NewPage {
        layout: Layout::of(signed_in, "New project", "organizations"),
        organization_id: organization.id,
        organization_name: organization.name,
        may_create: membership.role() >= v1::Role::Developer,
        typed_name,
        faults,
    };
    render(page.faults.status(), &page)
}

async fn new_project(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    show_new(&signed_in, &id, String::new(), Faults::none())
}

async fn create(signed_in: SignedIn, Path(id): Path<String>, Posted(new): Posted<NewProject>) -> Page {
    let (organization_id, name, once) = (id.clone(), new.name.clone(), signed_in.visit.once(&new.once));
    let message = v1::AccountServiceCreateProjectRequest { organization_id, name, once };
    match signed_in.core().accounts.create_project(signed_in.request(message)).await {
        Ok(answer) => {
            let project = answer.into_inner().project.unwrap_or_default();
            Ok(see_other(&format!("{}?done=created", path(&project.id))))
        }
        Err(status) => show_new(&signed_in, &id, new.name, Faults::of(&status)?),
    }
}

#[derive(Template)]
#[template(path = "project.html")]
struct ProjectPage {
    layout: Layout,
    access: ProjectAccess,
    now_ms: i64,
    keys: Vec<v1::ApiKey>,
    revoked_keys: Vec<v1::ApiKey>,
    /// The page shows the latest of these revoked keys.
    revoked_count: usize,
    /// The typed name, or else the current one.
    typed_name: String,
    faults: Faults,
}

impl ProjectPage {
    fn is_expired(&self, key: &v1::ApiKey) -> bool {
        key.expires_at.as_ref().is_some_and(|at| to_millis(at) <= self.now_ms)
    }
}

/// The state of the page's forms: a notice, or the typed text with its faults.
struct FormState<'a> {
    done: &'a str,
    typed_name: Option<String>,
    faults: Faults,
}

async fn show_project(signed_in: &SignedIn, id: &str, form: FormState<'_>) -> Page {
    let access = find(signed_in, id).await?;
    let message = v1::AccountServiceListKeysRequest { project_id: access.project.id.clone() };
    let keys = signed_in.core().accounts.list_keys(signed_in.request(message)).await?.into_inner().data;
    let (revoked_keys, keys): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key.revoked_at.is_some());
    let page = ProjectPage {
        layout: Layout::of(signed_in, &access.project.name, "organizations").with_notice(form.done, DONE),
        now_ms: signed_in.visit.console.clock.now_ms(),
        keys,
        revoked_count: revoked_keys.len(),
        revoked_keys: revoked_keys.into_iter().take(MAX_REVOKED).collect(),
        typed_name: form.typed_name.unwrap_or_else(|| access.project.name.clone()),
        access,
        faults: form.faults,
    };
    render(page.faults.status(), &page)
}

async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    let done = query.text("done");
    show_project(&signed_in, &id, FormState { done, typed_name: None, faults: Faults::none() }).await
}

/// The new name, and the revision of the project that the page showed.
#[derive(Debug, Deserialize)]
struct RenameForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    revision: String,
}

async fn rename(signed_in: SignedIn, Path(id): Path<String>, Posted(renaming): Posted<RenameForm>) -> Page {
    let revision = renaming.revision.parse().ok();
    let message = v1::UpdateProjectRequest { id: id.clone(), name: renaming.name.clone(), revision };
    match signed_in.core().accounts.update_project(signed_in.request(message)).await {
        Ok(_) => Ok(see_other(&format!("{}?done=renamed", path(&id)))),
        Err(status) => {
            let form = FormState { done: "", typed_name: Some(renaming.name), faults: Faults::of(&status)? };
            show_project(&signed_in, &id, form).await
        }
    }
}

/// Redirects to the project's page after success, or shows it with the faults.
async fn finish_form<T>(signed_in: &SignedIn, id: &str, outcome: Result<T, tonic::Status>, done: &str) -> Page {
    match outcome {
        Ok(_) => Ok(see_other(&format!("{}?done={done}", path(id)))),
        Err(status) => {
            let form = FormState { done: "", typed_name: None, faults: Faults::of(&status)? };
            show_project(signed_in, id, form).await
        }
    }
}

async fn archive(signed_in: SignedIn, Path(id): Path<String>, _: Posted<NoFields>) -> Page {
    let message = v1::AccountServiceArchiveProjectRequest { id: id.clone() };
    let outcome = signed_in.core().accounts.archive_project(signed_in.request(message)).await;
    finish_form(&signed_in, &id, outcome, "archived").await
}

/// A request for live access.
#[derive(Debug, Deserialize)]
struct LiveAccessForm {
    #[serde(default)]
    note: String,
}

async fn ask_for_live_access(
    signed_in: SignedIn,
    Path(id): Path<String>,
    Posted(form): Posted<LiveAccessForm>,
) -> Page {
    let note = Some(form.note).filter(|note| !note.trim().is_empty());
    let message = v1::RequestLiveAccessRequest { project_id: id.clone(), note };
    let outcome = signed_in.core().accounts.request_live_access(signed_in.request(message)).await;
    finish_form(&signed_in, &id, outcome, "asked").await
}
