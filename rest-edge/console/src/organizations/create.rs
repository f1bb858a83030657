//! Creates an organization.

use askama::Template;
use serde::Deserialize;
use thesis_proto::v1;

use super::overview_path;
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    view::{Layout, render},
    visit::SignedIn,
};

#[derive(Deserialize)]
pub(super) struct OrganizationForm {
    #[serde(default)]
    name: String,
}

#[derive(Template)]
#[template(path = "organization_new.html")]
struct NewOrganizationPage<'a> {
    layout: Layout,
    name: &'a str,
    faults: &'a Faults,
}

fn page(signed_in: &SignedIn, name: &str, faults: &Faults) -> Page {
    let layout = Layout::of(signed_in, "New organization", "organizations");
    render(faults.status(), &NewOrganizationPage { layout, name, faults })
}

pub(super) async fn show(signed_in: SignedIn) -> Page {
    page(&signed_in, "", &Faults::none())
}

/// The user becomes the owner of the new organization.
pub(super) async fn create(signed_in: SignedIn, Posted(form): Posted<OrganizationForm>) -> Page {
    let message = v1::AccountServiceCreateOrganizationRequest { name: form.name.clone() };
    match signed_in.change(signed_in.core().accounts.create_organization(signed_in.request(message))).await {
        Ok(answer) => {
            let organization = answer.into_inner().organization.unwrap_or_default();
            Ok(see_other(&format!("{}?done=created", overview_path(&organization.id))))
        }
        Err(status) => page(&signed_in, &form.name, &Faults::of(&status)?),
    }
}
