//! Organizations and their plans.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::v1;

use super::{ACTIVE, ORGANIZATIONS, RefusedForm, listing::Listing};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    page_query::{PageQuery, link},
    view::{Layout, render},
    visit::{Administrator, SignedIn},
};

const NOTICES: &[(&str, &str)] = &[("plan", "The plan was set. Its limits hold from now on.")];

#[derive(Template)]
#[template(path = "administration_organizations.html")]
struct OrganizationsPage {
    layout: Layout,
    tab: &'static str,
    find: String,
    organizations: Listing<v1::Organization>,
    /// The plans of the installation, and those that organizations have.
    plans: BTreeSet<String>,
    refused: RefusedForm,
}

impl OrganizationsPage {
    /// True if the list of an organization's plans shows this plan.
    fn is_chosen(&self, organization: &v1::Organization, plan: &str) -> bool {
        self.refused.typed(&organization.id).unwrap_or(&organization.plan) == plan
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PlanForm {
    plan: String,
    /// The search text of the page with the form.
    find: String,
    page: String,
}

async fn page(signed_in: &SignedIn, query: &PageQuery, refused: RefusedForm) -> Page {
    let request = signed_in.request(v1::ListOrganizationsRequest {});
    let answer = signed_in.core().admin.list_organizations(request).await?.into_inner();
    let v1::ListOrganizationsResponse { data: mut all, plans } = answer;
    all.sort_by_cached_key(|row| (row.name.to_lowercase(), row.id.clone()));
    let plans = plans.into_iter().chain(all.iter().map(|row| row.plan.clone())).collect();
    all.retain(|row| query.wants(&[&row.id, &row.name, &row.plan]));
    let page = OrganizationsPage {
        layout: Layout::of(signed_in, "Organizations", ACTIVE).with_notice(query.text("done"), NOTICES),
        tab: ORGANIZATIONS,
        find: query.text("find").to_owned(),
        organizations: query.part(ORGANIZATIONS, all),
        plans,
        refused,
    };
    render(page.refused.faults.status(), &page)
}

pub(super) async fn show(Administrator(signed_in): Administrator, query: PageQuery) -> Page {
    page(&signed_in, &query, RefusedForm::default()).await
}

pub(super) async fn set_plan(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(PlanForm { plan, find, page: at }): Posted<PlanForm>,
) -> Page {
    let message = v1::SetOrganizationPlanRequest { id: id.clone(), plan: plan.trim().to_owned() };
    let Err(status) = signed_in.change(signed_in.core().admin.set_organization_plan(signed_in.request(message))).await
    else {
        return Ok(see_other(&link(ORGANIZATIONS, &[("done", "plan"), ("find", find.trim()), ("page", at.trim())])));
    };
    let faults = Faults::of(&status)?;
    let query = PageQuery::of([("find".to_owned(), find), ("page".to_owned(), at)]);
    page(&signed_in, &query, RefusedForm { id, text: plan, faults }).await
}
