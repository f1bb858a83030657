//! Pages of projects: their overview, live access, keys, usage and settings.

mod keys;
mod overview;
mod settings;
mod usage;

use askama::Template;
use axum::{
    Router,
    extract::Path,
    routing::{get, post},
};
use futures::future::join_all;
use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1,
};
use tonic::Status;

use super::{
    Page,
    failure::{Failed, see_other},
    form::{Faults, Posted},
    view::{Layout, render},
    visit::SignedIn,
};

pub(crate) fn routes() -> Router {
    Router::new()
        .route("/console/organizations/{id}/projects", get(new_project).post(create))
        .route("/console/projects/{id}", get(overview::show))
        .route("/console/projects/{id}/live-access", post(overview::ask_for_live_access).get(to_project))
        .route("/console/projects/{id}/settings", get(settings::show))
        .route("/console/projects/{id}/name", post(settings::rename).get(settings::to_settings))
        .route("/console/projects/{id}/archive", get(settings::ask_to_archive).post(settings::archive))
        .route("/console/projects/{id}/keys", get(keys::new).post(keys::create))
        .route("/console/projects/{id}/keys/created", get(keys::created))
        .route("/console/projects/{id}/keys/{key}/roll", get(keys::show_roll).post(keys::roll))
        .route("/console/projects/{id}/keys/{key}/revoke", get(keys::ask_to_revoke).post(keys::revoke))
        .route("/console/projects/{id}/usage", get(usage::show))
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

/// The projects of the organization of a membership.
async fn list(signed_in: &SignedIn, membership: &v1::Membership) -> Result<Vec<v1::Project>, Status> {
    let organization_id = membership.organization.as_ref().map(|organization| organization.id.clone());
    let message = v1::AccountServiceListProjectsRequest { organization_id: organization_id.unwrap_or_default() };
    match signed_in.core().accounts.list_projects(signed_in.request(message)).await {
        Ok(answer) => Ok(answer.into_inner().data),
        // The membership ended after the account was read.
        Err(status) if ApiError::from_status(&status).code == ErrorCode::OrganizationNotFound => Ok(Vec::new()),
        Err(status) => Err(status),
    }
}

/// Finds a project in the user's organizations. Projects of others count as missing. The frame around the page then
/// shows all projects.
pub(super) async fn find(signed_in: &SignedIn, id: &str) -> Result<ProjectAccess, Failed> {
    let memberships = signed_in.account.memberships.iter();
    let (mut projects, mut closed) = (Vec::new(), None);
    for listed in join_all(memberships.map(|membership| list(signed_in, membership))).await {
        match listed {
            Ok(some) => projects.extend(some),
            // The project may be in another organization, which needs no second factor.
            Err(status) if ApiError::from_status(&status).code == ErrorCode::SecondFactorRequired => {
                closed = Some(status);
            }
            Err(status) => return Err(status.into()),
        }
    }
    let project = projects.iter().find(|project| project.id == id).cloned();
    // If a page calls this twice, the frame keeps the first result.
    let _ = signed_in.projects.set(projects);
    let project = project.ok_or_else(|| closed.map_or_else(Failed::missing, Failed::from))?;
    let membership = signed_in.membership(&project.organization_id)?;
    let organization_name = membership.organization.as_ref().map(|row| row.name.clone()).unwrap_or_default();
    Ok(ProjectAccess { project, organization_name, role: membership.role() })
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
    match signed_in.change(signed_in.core().accounts.create_project(signed_in.request(message))).await {
        Ok(answer) => {
            let project = answer.into_inner().project.unwrap_or_default();
            Ok(see_other(&format!("{}?done=created", path(&project.id))))
        }
        Err(status) => show_new(&signed_in, &id, new.name, Faults::of(&status)?),
    }
}
