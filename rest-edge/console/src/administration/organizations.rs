//! Organizations and their plans.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::v1;

use super::{ACTIVE, AUDIT, ORGANIZATIONS, listing::Listing};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    page_query::{PageQuery, link},
    view::{Layout, render, time},
    visit::{Administrator, SignedIn},
};

const NOTICES: &[(&str, &str)] = &[("plan", "The plan was set. Its limits hold from now on.")];

struct OrganizationRow {
    id: String,
    name: String,
    /// The current plan, or the text that core refused.
    plan: String,
    fault: Option<String>,
    created_at: String,
    /// Link to the organization's entries of the audit log.
    audit: String,
}

#[derive(Template)]
#[template(path = "administration_organizations.html")]
struct OrganizationsPage {
    layout: Layout,
    tab: &'static str,
    alert: Option<String>,
    find: String,
    organizations: Listing<OrganizationRow>,
    /// The form suggests the plans that organizations already have.
    plans: BTreeSet<String>,
}

struct RefusedForm {
    id: String,
    plan: String,
    faults: Faults,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct PlanForm {
    plan: String,
    /// The search text of the page with the form.
    find: String,
    page: String,
}

async fn page(signed_in: &SignedIn, query: &PageQuery, attempt: Option<RefusedForm>) -> Page {
    let request = signed_in.request(v1::ListOrganizationsRequest {});
    let mut all = signed_in.core().admin.list_organizations(request).await?.into_inner().data;
    all.sort_by_cached_key(|row| (row.name.to_lowercase(), row.id.clone()));
    let plans = all.iter().map(|row| row.plan.clone()).collect();
    let wanted = all.into_iter().filter(|row| query.wants(&[&row.id, &row.name, &row.plan]));
    let rows = wanted.map(|row| {
        let attempt = attempt.as_ref().filter(|attempt| attempt.id == row.id);
        OrganizationRow {
            plan: attempt.map_or(row.plan, |attempt| attempt.plan.clone()),
            fault: attempt.and_then(|attempt| attempt.faults.field("plan").map(str::to_owned)),
            created_at: time(row.created_at.as_ref()),
            audit: link(AUDIT, &[("organization", &row.id)]),
            id: row.id,
            name: row.name,
        }
    });
    let none = Faults::none();
    let faults = attempt.as_ref().map_or(&none, |attempt| &attempt.faults);
    let page = OrganizationsPage {
        layout: Layout::of(signed_in, "Organizations", ACTIVE).with_notice(query.text("done"), NOTICES),
        tab: ORGANIZATIONS,
        alert: faults.whole().map(str::to_owned),
        find: query.text("find").to_owned(),
        organizations: query.part(ORGANIZATIONS, rows.collect()),
        plans,
    };
    render(faults.status(), &page)
}

pub(super) async fn show(Administrator(signed_in): Administrator, query: PageQuery) -> Page {
    page(&signed_in, &query, None).await
}

pub(super) async fn set_plan(
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(PlanForm { plan, find, page: at }): Posted<PlanForm>,
) -> Page {
    let message = v1::SetOrganizationPlanRequest { id: id.clone(), plan: plan.trim().to_owned() };
    let Err(status) = signed_in.core().admin.set_organization_plan(signed_in.request(message)).await else {
        return Ok(see_other(&link(ORGANIZATIONS, &[("done", "plan"), ("find", find.trim()), ("page", at.trim())])));
    };
    let faults = Faults::of(&status)?;
    let query = PageQuery::of([("find".to_owned(), find), ("page".to_owned(), at)]);
    page(&signed_in, &query, Some(RefusedForm { id, plan, faults })).await
}
