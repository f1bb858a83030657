//! The search. Without words it shows the newest theses.

use askama::Template;
use thesis_proto::{
    names::{parse_search_sort, parse_search_type},
    v1,
};
use tonic::Status;

use super::{TAB, theses};
use crate::{
    Page,
    form::Faults,
    page_query::PageQuery,
    view::{Choice, Layout, choices, render},
    workspace::Workspace,
};

/// The page shows at most this many rows of each kind.
const LIMIT: i32 = 10;
/// The searchable kinds, as the API names them.
const KINDS: [(&str, &str); 4] =
    [("", "Everything"), ("theses", "Theses"), ("profiles", "Profiles"), ("tokens", "Tokens")];
/// The orders of theses, as the API names them.
const SORTS: [(&str, &str); 2] = [("relevance", "Best match first"), ("created_at_desc", "Newest first")];

#[derive(Template)]
#[template(path = "explore.html")]
struct SearchPage {
    layout: Layout,
    workspace: Workspace,
    part: &'static str,
    query: PageQuery,
    kinds: Vec<Choice>,
    sorts: Vec<Choice>,
    /// True if the query has words.
    is_search: bool,
    theses: Vec<v1::Thesis>,
    profiles: Vec<v1::Profile>,
    tokens: Vec<v1::Token>,
    faults: Faults,
}

/// Searches, or reads the newest theses if the query has no words.
async fn search(workspace: &Workspace, query: &PageQuery) -> Result<v1::SearchResult, Status> {
    let mut read = query.reader();
    let message = v1::SearchRequest {
        q: read.text("q").unwrap_or_default(),
        types: read.choice("types", parse_search_type).into_iter().map(i32::from).collect(),
        sort: read.choice("sort", parse_search_sort).unwrap_or_default().into(),
        limit: Some(LIMIT),
        ..v1::SearchRequest::default()
    };
    let message = read.finish(message)?;
    if message.q.is_empty() {
        let newest = v1::ListThesesRequest { limit: Some(LIMIT), ..v1::ListThesesRequest::default() };
        let theses = theses::list(workspace, newest).await?.data;
        return Ok(v1::SearchResult { theses, ..v1::SearchResult::default() });
    }
    let answer = workspace.core().search.search(workspace.request(message)).await?;
    Ok(answer.into_inner().result.unwrap_or_default())
}

pub(super) async fn show(workspace: Workspace, query: PageQuery) -> Page {
    let (found, faults) = Faults::of_query(search(&workspace, &query).await)?;
    let page = SearchPage {
        layout: workspace.layout("Explore"),
        part: TAB,
        kinds: choices(KINDS, query.text("types")),
        sorts: choices(SORTS, query.text("sort")),
        is_search: query.has_value(&["q"]),
        theses: found.theses,
        profiles: found.profiles,
        tokens: found.tokens,
        query,
        workspace,
        faults,
    };
    render(page.faults.status(), &page)
}
