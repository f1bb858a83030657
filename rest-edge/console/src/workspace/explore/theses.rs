//! The list of theses.

use askama::Template;
use thesis_proto::{names::parse_thesis_sort, v1};
use tonic::Status;

use super::THESES;
use crate::{
    Page,
    form::Faults,
    page_query::PageQuery,
    view::{Choice, Layout, choices, render},
    workspace::Workspace,
};

const LIMIT: i32 = 25;
/// The orders, as the API names them.
const SORTS: [(&str, &str); 3] =
    [("created_at_desc", "Newest first"), ("created_at_asc", "Oldest first"), ("likes_desc", "Most liked first")];
/// Links to other pages of the list keep these parameters.
const KEPT: &[&str] = &["profile", "token", "chain", "created_after", "created_before", "sort"];

#[derive(Template)]
#[template(path = "explore_list.html")]
struct ListPage {
    layout: Layout,
    workspace: Workspace,
    part: &'static str,
    query: PageQuery,
    sorts: Vec<Choice>,
    theses: Vec<v1::Thesis>,
    /// The path of the first page; none on that page.
    first: Option<String>,
    /// The path of the next page.
    next: Option<String>,
    /// The text of the link to it.
    next_name: &'static str,
    faults: Faults,
}

pub(super) async fn list(
    workspace: &Workspace,
    message: v1::ListThesesRequest,
) -> Result<v1::ListThesesResponse, Status> {
    Ok(workspace.core().theses.list_theses(workspace.request(message)).await?.into_inner())
}

async fn find(workspace: &Workspace, query: &PageQuery) -> Result<v1::ListThesesResponse, Status> {
    let mut read = query.reader();
    let message = v1::ListThesesRequest {
        profile: read.text("profile"),
        token: read.text("token"),
        chain: read.text("chain"),
        created_after: read.time("created_after"),
        created_before: read.time("created_before"),
        sort: read.choice("sort", parse_thesis_sort).unwrap_or_default().into(),
        limit: Some(LIMIT),
        cursor: read.text("cursor"),
        ..v1::ListThesesRequest::default()
    };
    list(workspace, read.finish(message)?).await
}

pub(super) async fn show(workspace: Workspace, query: PageQuery) -> Page {
    let (listed, faults) = Faults::of_query(find(&workspace, &query).await)?;
    let path = workspace.path(THESES);
    let is_newest_first = ["", SORTS[0].0].contains(&query.text("sort"));
    let page = ListPage {
        layout: workspace.layout("Theses"),
        part: THESES,
        sorts: choices(SORTS, query.text("sort")),
        theses: listed.data,
        first: query.given("cursor").map(|_| query.link(&path, KEPT, None)),
        next: listed.next_cursor.map(|cursor| query.link(&path, KEPT, Some(&cursor))),
        next_name: if is_newest_first { "Older" } else { "Next" },
        query,
        workspace,
        faults,
    };
    render(page.faults.status(), &page)
}
