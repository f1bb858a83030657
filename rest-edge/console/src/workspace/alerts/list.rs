//! The list of alerts.

use askama::Template;
use thesis_proto::v1;
use tonic::Status;

use super::TAB;
use crate::{
    Page,
    form::Faults,
    page_query::PageQuery,
    view::{Layout, render},
    workspace::Workspace,
};

const ROWS: i32 = 25;

/// The notices after a change, by the word in `?done=`.
const DONE: &[(&str, &str)] = &[("deleted", "The alert is deleted. Its past events stay in the history.")];

#[derive(Template)]
#[template(path = "alerts.html")]
struct ListPage {
    layout: Layout,
    workspace: Workspace,
    alerts: Vec<v1::Alert>,
    faults: Faults,
    /// The path of the first page; none on that page.
    first: Option<String>,
    next: Option<String>,
}

async fn list(workspace: &Workspace, query: &PageQuery) -> Result<v1::ListAlertsResponse, Status> {
    let mut read = query.reader();
    let message = v1::ListAlertsRequest { limit: Some(ROWS), cursor: read.text("cursor") };
    let message = read.finish(message)?;
    Ok(workspace.core().alerts.list_alerts(workspace.request(message)).await?.into_inner())
}

pub(super) async fn show(workspace: Workspace, query: PageQuery) -> Page {
    let (listed, faults) = Faults::of_query(list(&workspace, &query).await)?;
    let path = workspace.path(TAB);
    let page = ListPage {
        layout: workspace.layout("Alerts").with_notice(query.text("done"), DONE),
        alerts: listed.data,
        faults,
        first: query.given("cursor").map(|_| query.link(&path, &[], None)),
        next: listed.next_cursor.as_deref().map(|next| query.link(&path, &[], Some(next))),
        workspace,
    };
    render(page.faults.status(), &page)
}
