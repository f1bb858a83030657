//! The list of theses.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use thesis_proto::{names::parse_thesis_sort, v1};
use tonic::Status;

use super::{TAB, THESES, rows::ThesisRow};
use crate::console::{
    Console, Page,
    form::Faults,
    question::Question,
    view::{Choice, Layout, choices, render},
    workspace::Workspace,
};

/// Rows of a page.
const LIMIT: i32 = 25;
/// The orders, as the API names them.
const SORTS: [(&str, &str); 3] =
    [("created_at_desc", "Newest first"), ("created_at_asc", "Oldest first"), ("likes_desc", "Most liked first")];
/// The parameters that links to other pages of the list keep.
const KEPT: &[&str] = &["profile", "token", "chain", "created_after", "created_before", "sort"];

/// A page of the list.
#[derive(Template)]
#[template(path = "explore_list.html")]
struct ListPage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    part: &'static str,
    asked: Question,
    sorts: Vec<Choice>,
    theses: Vec<ThesisRow>,
    /// The first page, unless this is it.
    first: Option<String>,
    /// The page after this one.
    next: Option<String>,
    faults: Faults,
}

/// Asks core for theses.
///
/// # Errors
/// Those of core.
pub(super) async fn list(
    console: &Console,
    workspace: &Workspace,
    message: v1::ListThesesRequest,
) -> Result<v1::ListThesesResponse, Status> {
    Ok(console.core.theses.list_theses(workspace.request(message)).await?.into_inner())
}

async fn find(console: &Console, workspace: &Workspace, asked: &Question) -> Result<v1::ListThesesResponse, Status> {
    let mut read = asked.reader();
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
    list(console, workspace, read.finish(message)?).await
}

pub(super) async fn show(State(console): State<Arc<Console>>, workspace: Workspace, asked: Question) -> Page {
    let (listed, faults) = Faults::asked(find(&console, &workspace, &asked).await)?;
    let (status, path) = (faults.status(), workspace.path(THESES));
    let page = ListPage {
        layout: workspace.layout("Theses"),
        tab: TAB,
        part: THESES,
        sorts: choices(SORTS, asked.text("sort")),
        theses: ThesisRow::all(&workspace, listed.data),
        first: asked.given("cursor").map(|_| asked.link(&path, KEPT, None)),
        next: listed.next_cursor.map(|cursor| asked.link(&path, KEPT, Some(&cursor))),
        asked,
        workspace,
        faults,
    };
    render(status, &page)
}
