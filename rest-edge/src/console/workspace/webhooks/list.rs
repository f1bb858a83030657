//! The list of webhooks.

use std::{collections::HashMap, sync::Arc};

use askama::Template;
use axum::extract::{Query, State};
use http::StatusCode;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use thesis_proto::{
    names::{WEBHOOK_STATUSES, parse_webhook_status, webhook_status_name},
    v1,
};

use super::{
    TAB,
    facts::{Badge, Facts, ROW_TEXT},
};
use crate::console::{
    Console, Page,
    view::{Layout, render},
    workspace::Workspace,
};

/// Most rows of a page.
const ROWS: i32 = 25;

/// What the list says after a change.
const DONE: &[(&str, &str)] = &[("deleted", "The webhook is deleted. What waited for it is cancelled.")];

/// A status by which the list is filtered.
struct Choice {
    value: &'static str,
    word: &'static str,
    is_chosen: bool,
}

#[derive(Template)]
#[template(path = "webhooks.html")]
struct ListPage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    webhooks: Vec<Facts>,
    /// Webhooks of the environment, and how many the plan allows.
    used: i64,
    limit: i64,
    choices: Vec<Choice>,
    is_filtered: bool,
    /// The list's first page, from later ones.
    first: Option<String>,
    next: Option<String>,
}

/// The path of a page of the list.
fn page_path(path: &str, status: v1::WebhookStatus, cursor: Option<&str>) -> String {
    let status = Some(webhook_status_name(status)).filter(|_| status != v1::WebhookStatus::Unspecified);
    let parts = [("status", status), ("cursor", cursor)];
    let given = parts
        .into_iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", utf8_percent_encode(value?, NON_ALPHANUMERIC))));
    let query = given.collect::<Vec<_>>().join("&");
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

pub(super) async fn show(
    State(console): State<Arc<Console>>,
    workspace: Workspace,
    Query(query): Query<HashMap<String, String>>,
) -> Page {
    let named = |name: &str| query.get(name).map(String::as_str).filter(|text| !text.is_empty());
    let (cursor, status) = (named("cursor"), named("status").and_then(parse_webhook_status).unwrap_or_default());
    let message =
        v1::ListWebhooksRequest { limit: Some(ROWS), cursor: cursor.map(str::to_owned), status: status.into() };
    let plan = v1::GetProjectUsageRequest { project_id: workspace.place.project.id.clone() };
    let (listed, plan) = tokio::try_join!(
        console.core.webhooks.list_webhooks(workspace.request(message)),
        console.core.accounts.get_project_usage(workspace.signed_in.visit.request(plan)),
    )?;
    let (listed, plan) = (listed.into_inner(), plan.into_inner());
    let plan = if workspace.live { plan.live } else { plan.test };
    let plan = plan.and_then(|usage| usage.webhooks).unwrap_or_default();
    let path = workspace.path(TAB);
    let choice = |&(of, value): &(v1::WebhookStatus, &'static str)| Choice {
        value,
        word: Badge::of(of).word,
        is_chosen: of == status,
    };
    let page = ListPage {
        layout: workspace
            .layout(&format!("Webhooks of {}", workspace.place.project.name))
            .with_notice(named("done"), DONE),
        tab: TAB,
        webhooks: listed.data.iter().map(|webhook| Facts::of(&workspace, webhook, ROW_TEXT)).collect(),
        used: plan.used,
        limit: plan.limit,
        choices: WEBHOOK_STATUSES.iter().map(choice).collect(),
        is_filtered: status != v1::WebhookStatus::Unspecified,
        first: cursor.map(|_| page_path(&path, status, None)),
        next: listed.next_cursor.as_deref().map(|next| page_path(&path, status, Some(next))),
        workspace,
    };
    render(StatusCode::OK, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_the_list_has_a_path() {
        let path = |status, cursor| page_path("/list", status, cursor);
        assert_eq!(path(v1::WebhookStatus::Unspecified, None), "/list");
        assert_eq!(path(v1::WebhookStatus::Unspecified, Some("a=")), "/list?cursor=a%3D");
        assert_eq!(path(v1::WebhookStatus::Enabled, Some("a")), "/list?status=enabled&cursor=a");
    }
}
