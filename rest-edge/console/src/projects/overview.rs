//! The overview of a project: first steps, health, live access and keys.

mod health;
mod steps;

use askama::Template;
use axum::extract::Path;
use serde::Deserialize;
use thesis_proto::{
    metadata::LIVE,
    time::{from_millis, to_millis},
    v1,
};

use self::{
    health::{Deliveries, Facts, Tile},
    steps::Step,
};
use super::{
    ProjectAccess, find, path,
    usage::{DAY_MS, count_usage},
};
use crate::{
    Page,
    failure::see_other,
    form::{Faults, Posted},
    frame::chosen_environment,
    page_query::PageQuery,
    view::{Layout, render},
    visit::SignedIn,
};

/// The page shows at most this many revoked keys.
const MAX_REVOKED: usize = 20;
/// The charts show this many days, today included.
const DAYS: i64 = 7;

/// The notices after a change, by the word in `?done=`.
const DONE: &[(&str, &str)] = &[
    ("created", "The project is created. Follow the first steps below."),
    ("asked", "You asked for live access. An administrator decides."),
    ("archived", "The project is archived. Its keys no longer work."),
    ("revoked", "The key is revoked. It no longer works."),
];

#[derive(Template)]
#[template(path = "project.html")]
struct ProjectPage {
    layout: Layout,
    access: ProjectAccess,
    /// The environment whose figures the page shows.
    environment: &'static str,
    now_ms: i64,
    /// The steps of a new project; none once they are done.
    steps: Vec<Step>,
    steps_done: usize,
    tiles: Vec<Tile>,
    /// Number of tiles that need attention.
    concerns: usize,
    keys: Vec<v1::ApiKey>,
    revoked_keys: Vec<v1::ApiKey>,
    /// The page shows the latest of these revoked keys.
    revoked_count: usize,
    /// The typed note of a refused request for live access.
    typed_note: String,
    faults: Faults,
}

impl ProjectPage {
    fn is_expired(&self, key: &v1::ApiKey) -> bool {
        key.expires_at.as_ref().is_some_and(|at| to_millis(at) <= self.now_ms)
    }
}

async fn page(signed_in: &SignedIn, id: &str, query: &PageQuery, typed_note: String, faults: Faults) -> Page {
    let access = find(signed_in, id).await?;
    let environment = chosen_environment(query, &access.project);
    let live = environment == LIVE;
    let now_ms = signed_in.visit.console.clock.now_ms();
    let from_ms = now_ms.div_euclid(DAY_MS) * DAY_MS - (DAYS - 1) * DAY_MS;

    let project_id = || access.project.id.clone();
    let keys = signed_in.request(v1::AccountServiceListKeysRequest { project_id: project_id() });
    let limits = signed_in.request(v1::GetProjectUsageRequest { project_id: project_id() });
    let from = Some(from_millis(from_ms));
    let usage = signed_in.request(v1::ListKeyUsageRequest { project_id: project_id(), from, to: None });
    let (keys, limits, usage, deliveries) = tokio::join!(
        signed_in.core().accounts.list_keys(keys),
        signed_in.core().accounts.get_project_usage(limits),
        signed_in.core().accounts.list_key_usage(usage),
        Deliveries::read(signed_in, &access.project, live),
    );
    let (keys, limits, usage) = (keys?.into_inner().data, limits?.into_inner(), usage?.into_inner().data);
    let limits = if live { limits.live } else { limits.test };
    let limits = limits.unwrap_or_default();

    let steps = steps::steps(&access.project, environment, &steps::Signs::of(&keys, &usage, &limits, &deliveries));
    let (revoked_keys, keys): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| key.revoked_at.is_some());
    let is_shown = |row: &v1::KeyUsage| health::is_of(&keys, &revoked_keys, &row.key_id, live);
    let usage: Vec<_> = usage.into_iter().filter(is_shown).collect();
    let facts = Facts { counted: count_usage(&usage, from_ms, DAYS), limits, deliveries, keys: &keys, now_ms };
    let tiles = health::tiles(&access.project, environment, facts);
    let page = ProjectPage {
        layout: Layout::of(signed_in, &access.project.name, "organizations").with_notice(query.text("done"), DONE),
        environment,
        now_ms,
        steps_done: steps.iter().filter(|step| step.is_done).count(),
        steps,
        concerns: tiles.iter().filter(|tile| tile.is_concern()).count(),
        tiles,
        keys,
        revoked_count: revoked_keys.len(),
        revoked_keys: revoked_keys.into_iter().take(MAX_REVOKED).collect(),
        access,
        typed_note,
        faults,
    };
    render(page.faults.status(), &page)
}

pub(super) async fn show(signed_in: SignedIn, Path(id): Path<String>, query: PageQuery) -> Page {
    page(&signed_in, &id, &query, String::new(), Faults::none()).await
}

/// A request for live access.
#[derive(Debug, Deserialize)]
pub(super) struct LiveAccessForm {
    #[serde(default)]
    note: String,
}

pub(super) async fn ask_for_live_access(
    signed_in: SignedIn,
    Path(id): Path<String>,
    Posted(form): Posted<LiveAccessForm>,
) -> Page {
    let note = Some(form.note.clone()).filter(|note| !note.trim().is_empty());
    let message = v1::RequestLiveAccessRequest { project_id: id.clone(), note };
    match signed_in.change(signed_in.core().accounts.request_live_access(signed_in.request(message))).await {
        Ok(_) => Ok(see_other(&format!("{}?done=asked", path(&id)))),
        Err(status) => page(&signed_in, &id, &PageQuery::default(), form.note, Faults::of(&status)?).await,
    }
}
