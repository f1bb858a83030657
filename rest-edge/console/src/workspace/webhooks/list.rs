//! The list of webhooks.

use askama::Template;
use thesis_proto::{
    names::{WEBHOOK_STATUSES, parse_webhook_status},
    v1,
};
use tonic::Status;

use super::{TAB, facts::badge};
use crate::{
    Page,
    form::Faults,
    page_query::PageQuery,
    view::{ALL, Choice, Layout, choices, render},
    workspace::Workspace,
};

const ROWS: i32 = 25;

/// The notices after a change, by the word in `?done=`.
const DONE: &[(&str, &str)] = &[("deleted", "The webhook is deleted. What waited for it is cancelled.")];

#[derive(Template)]
#[template(path = "webhooks.html")]
struct ListPage {
    layout: Layout,
    workspace: Workspace,
    webhooks: Vec<v1::Webhook>,
    /// Number of webhooks in the environment; `limit` is the plan's limit.
    used: i64,
    limit: i64,
    statuses: Vec<Choice>,
    faults: Faults,
    is_filtered: bool,
    /// The path of the first page; none on that page.
    first: Option<String>,
    next: Option<String>,
}

async fn list(workspace: &Workspace, query: &PageQuery) -> Result<v1::ListWebhooksResponse, Status> {
    let mut read = query.reader();
    let message = v1::ListWebhooksRequest {
        limit: Some(ROWS),
        cursor: read.text("cursor"),
        status: read.choice("status", parse_webhook_status).unwrap_or_default().into(),
    };
    let message = read.finish(message)?;
    Ok(workspace.core().webhooks.list_webhooks(workspace.request(message)).await?.into_inner())
}

pub(super) async fn show(workspace: Workspace, query: PageQuery) -> Page {
    let plan = v1::GetProjectUsageRequest { project_id: workspace.access.project.id.clone() };
    let (listed, plan) = tokio::join!(
        list(&workspace, &query),
        workspace.core().accounts.get_project_usage(workspace.signed_in.request(plan)),
    );
    let ((listed, faults), plan) = (Faults::of_query(listed)?, plan?.into_inner());
    let plan = if workspace.live { plan.live } else { plan.test };
    let plan = plan.and_then(|usage| usage.webhooks).unwrap_or_default();
    let path = workspace.path(TAB);
    let statuses = WEBHOOK_STATUSES.iter().map(|&(status, name)| (name, badge(status).word));
    let page = ListPage {
        layout: workspace.layout("Webhooks").with_notice(query.text("done"), DONE),
        webhooks: listed.data,
        used: plan.used,
        limit: plan.limit,
        statuses: choices([ALL].into_iter().chain(statuses), query.text("status")),
        faults,
        is_filtered: query.has_value(&["status"]),
        first: query.given("cursor").map(|_| query.link(&path, &["status"], None)),
        next: listed.next_cursor.as_deref().map(|next| query.link(&path, &["status"], Some(next))),
        workspace,
    };
    render(page.faults.status(), &page)
}
