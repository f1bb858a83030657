//! The settings of an organization: its name, its details, and whether members need a second factor.

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::v1;

use super::{access::OrganizationAccess, settings_path};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    page_query::PageQuery,
    view::{Layout, render},
    visit::SignedIn,
};

const DONE: &[(&str, &str)] = &[
    ("renamed", "The organization has its new name."),
    ("factor-required", "Members need a second factor now."),
    ("factor-not-required", "Members need no second factor any more."),
];

#[derive(Deserialize)]
pub(super) struct RenameForm {
    #[serde(default)]
    name: String,
    revision: Option<u64>,
}

#[derive(Template)]
#[template(path = "organization_settings.html")]
struct SettingsPage {
    layout: Layout,
    access: OrganizationAccess,
    /// The typed name, or else the current one.
    typed_name: String,
    faults: Faults,
}

fn page(signed_in: &SignedIn, id: &str, done: &str, typed_name: Option<String>, faults: Faults) -> Page {
    let access = OrganizationAccess::of(signed_in, id)?;
    let title = format!("Settings of {}", access.name);
    let page = SettingsPage {
        layout: Layout::of(signed_in, &title, "organizations").with_notice(done, DONE),
        typed_name: typed_name.unwrap_or_else(|| access.name.clone()),
        access,
        faults,
    };
    render(page.faults.status(), &page)
}

pub(super) async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    page(&signed_in, &id, query.text("done"), None, Faults::none())
}

pub(super) async fn to_settings(signed_in: SignedIn, Path(id): Path<String>) -> Page {
    signed_in.membership(&id)?;
    Ok(see_other(&settings_path(&id)))
}

pub(super) async fn rename(signed_in: SignedIn, Path(id): Path<String>, Posted(form): Posted<RenameForm>) -> Page {
    signed_in.membership(&id)?;
    let message = v1::UpdateOrganizationRequest { id: id.clone(), name: form.name.clone(), revision: form.revision };
    match signed_in.change(signed_in.core().accounts.update_organization(signed_in.request(message))).await {
        Ok(_) => Ok(see_other(&format!("{}?done=renamed", settings_path(&id)))),
        Err(status) => page(&signed_in, &id, "", Some(form.name), Faults::of(&status)?),
    }
}

#[derive(Deserialize)]
pub(super) struct FactorForm {
    #[serde(default)]
    required: String,
}

/// Sets whether members need a second factor.
pub(super) async fn require_factor(
    signed_in: SignedIn,
    Path(id): Path<String>,
    Posted(form): Posted<FactorForm>,
) -> Page {
    signed_in.membership(&id)?;
    let required = form.required == "true";
    let message = v1::RequireSecondFactorRequest { organization_id: id.clone(), required };
    match signed_in.change(signed_in.core().accounts.require_second_factor(signed_in.request(message))).await {
        Ok(_) => {
            let done = if required { "factor-required" } else { "factor-not-required" };
            Ok(see_other(&format!("{}?done={done}", settings_path(&id))))
        }
        Err(status) => page(&signed_in, &id, "", None, Faults::of(&status)?),
    }
}
