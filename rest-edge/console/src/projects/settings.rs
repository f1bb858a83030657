//! The settings of a project: its name, its details, and its archiving.

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::v1;

use super::{ProjectAccess, find, path};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    page_query::PageQuery,
    question::{Question, TypedName},
    view::{Layout, render},
    visit::SignedIn,
};

const DONE: &[(&str, &str)] = &[("renamed", "The project has its new name.")];

#[derive(Template)]
#[template(path = "project_settings.html")]
struct SettingsPage {
    layout: Layout,
    access: ProjectAccess,
    /// The typed name, or else the current one.
    typed_name: String,
    faults: Faults,
}

/// The new name, and the revision of the project that the page showed.
#[derive(Debug, Deserialize)]
pub(super) struct RenameForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    revision: String,
}

fn settings_path(id: &str) -> String {
    format!("{}/settings", path(id))
}

async fn page(signed_in: &SignedIn, id: &str, done: &str, typed_name: Option<String>, faults: Faults) -> Page {
    let access = find(signed_in, id).await?;
    let title = format!("Settings of {}", access.project.name);
    let page = SettingsPage {
        layout: Layout::of(signed_in, &title, "organizations").with_notice(done, DONE),
        typed_name: typed_name.unwrap_or_else(|| access.project.name.clone()),
        access,
        faults,
    };
    render(page.faults.status(), &page)
}

pub(super) async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    page(&signed_in, &id, query.text("done"), None, Faults::none()).await
}

/// The browser keeps the address of a form that failed. A reload redirects to the page with the form.
pub(super) async fn to_settings(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    Ok(see_other(&settings_path(&find(&signed_in, &id).await?.project.id)))
}

pub(super) async fn rename(signed_in: SignedIn, Path(id): Path<String>, Posted(renaming): Posted<RenameForm>) -> Page {
    let revision = renaming.revision.parse().ok();
    let message = v1::UpdateProjectRequest { id: id.clone(), name: renaming.name.clone(), revision };
    match signed_in.change(signed_in.core().accounts.update_project(signed_in.request(message))).await {
        Ok(_) => Ok(see_other(&format!("{}?done=renamed", settings_path(&id)))),
        Err(status) => page(&signed_in, &id, "", Some(renaming.name), Faults::of(&status)?).await,
    }
}

fn question(signed_in: &SignedIn, project: &v1::Project, faults: Faults) -> Page {
    let question = Question {
        layout: Layout::of(signed_in, &format!("Archive {}?", project.name), "organizations"),
        consequence:
            "All keys of the project stop working, and its streams and webhooks end. This cannot be taken back."
                .to_owned(),
        action: format!("{}/archive", path(&project.id)),
        button: "Archive project",
        name: Some(project.name.clone()),
        reason: None,
        back: settings_path(&project.id),
        faults,
    };
    question.ask()
}

pub(super) async fn ask_to_archive(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    let access = find(&signed_in, &id).await?;
    // There is nothing to confirm for an archived project, and only owners may archive one.
    if !access.may_archive() {
        return Ok(see_other(&settings_path(&id)));
    }
    question(&signed_in, &access.project, Faults::none())
}

pub(super) async fn archive(signed_in: SignedIn, Path(id): Path<String>, Posted(typed): Posted<TypedName>) -> Page {
    let access = find(&signed_in, &id).await?;
    if let Some(faults) = typed.faults(Some(&access.project.name)) {
        return question(&signed_in, &access.project, faults);
    }
    let message = v1::AccountServiceArchiveProjectRequest { id: id.clone() };
    match signed_in.change(signed_in.core().accounts.archive_project(signed_in.request(message))).await {
        Ok(_) => Ok(see_other(&format!("{}?done=archived", path(&id)))),
        Err(status) => question(&signed_in, &access.project, Faults::of(&status)?),
    }
}
