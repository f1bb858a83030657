//! Organizations and their plans.

use std::{collections::BTreeSet, sync::Arc};

use askama::Template;
use axum::extract::{Path, State};
use serde::Deserialize;
use thesis_proto::v1;

use super::{
    ACTIVE, AUDIT, ORGANIZATIONS, TABS, Tab,
    asked::{Asked, Listing},
};
use crate::console::{
    Console, Page,
    form::{Faults, Posted},
    question::link,
    view::{Layout, render, see_other, time},
    visit::{Administrator, SignedIn},
};

const NOTICES: &[(&str, &str)] = &[("plan", "The plan was set. Its limits hold from now on.")];

struct Row {
    id: String,
    name: String,
    /// As it is, or as it was typed.
    plan: String,
    fault: Option<String>,
    created_at: String,
    /// Its part of the audit log.
    audit: String,
}

#[derive(Template)]
#[template(path = "administration_organizations.html")]
struct Organizations {
    layout: Layout,
    tabs: [Tab; 6],
    tab: &'static str,
    alert: Option<String>,
    find: String,
    organizations: Listing<Row>,
    /// Plans that organizations have, as suggestions.
    plans: BTreeSet<String>,
}

/// A form that core refused.
struct Attempt {
    id: String,
    plan: String,
    faults: Faults,
}

/// The form of a plan.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct Plan {
    plan: String,
    /// What was looked for on the page.
    find: String,
    page: String,
}

async fn page(console: &Console, signed_in: &SignedIn, asked: &Asked, attempt: Option<Attempt>) -> Page {
    let request = signed_in.visit.request(v1::ListOrganizationsRequest {});
    let mut all = console.core.admin.list_organizations(request).await?.into_inner().data;
    all.sort_by_cached_key(|row| (row.name.to_lowercase(), row.id.clone()));
    let plans = all.iter().map(|row| row.plan.clone()).collect();
    let wanted = all.into_iter().filter(|row| asked.wants(&[&row.id, &row.name, &row.plan]));
    let rows = wanted.map(|row| {
        let attempt = attempt.as_ref().filter(|attempt| attempt.id == row.id);
        Row {
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
    let page = Organizations {
        layout: Layout::of(signed_in, "Organizations", ACTIVE).with_notice(asked.done.as_deref(), NOTICES),
        tabs: TABS,
        tab: ORGANIZATIONS,
        alert: faults.whole().map(str::to_owned),
        find: asked.find.trim().to_owned(),
        organizations: asked.part(ORGANIZATIONS, rows.collect()),
        plans,
    };
    render(faults.status(), &page)
}

pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Administrator(signed_in): Administrator,
    asked: Asked,
) -> Page {
    page(&console, &signed_in, &asked, None).await
}

pub(super) async fn set_plan(
    State(console): State<Arc<Console>>,
    Administrator(signed_in): Administrator,
    Path(id): Path<String>,
    Posted(Plan { plan, find, page: at }): Posted<Plan>,
) -> Page {
    let message = v1::SetOrganizationPlanRequest { id: id.clone(), plan: plan.trim().to_owned() };
    let Err(status) = console.core.admin.set_organization_plan(signed_in.visit.request(message)).await else {
        return Ok(see_other(&link(ORGANIZATIONS, &[("done", "plan"), ("find", find.trim()), ("page", at.trim())])));
    };
    let faults = Faults::of(&status)?;
    let asked = Asked { find, page: at.trim().parse().ok(), ..Asked::default() };
    page(&console, &signed_in, &asked, Some(Attempt { id, plan, faults })).await
}
