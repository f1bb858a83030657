//! Search, and the newest theses before anything is searched for.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use thesis_proto::{
    names::{parse_search_sort, parse_search_type},
    v1,
};
use tonic::Status;

use super::{
    TAB,
    asked::{Asked, Choice, choices},
    faults_of,
    rows::{ProfileRow, ThesisRow, TokenRow},
    theses,
};
use crate::console::{
    Console, Page,
    form::Faults,
    view::{Layout, render},
    workspace::Workspace,
};

/// Most rows of each kind.
const LIMIT: i32 = 10;
/// What can be searched for, as the API names it.
const KINDS: &[(&str, &str)] =
    &[("", "Everything"), ("theses", "Theses"), ("profiles", "Profiles"), ("tokens", "Tokens")];
/// The orders of theses, as the API names them.
const SORTS: &[(&str, &str)] = &[("relevance", "Best match first"), ("created_at_desc", "Newest first")];

/// The page of the search.
#[derive(Template)]
#[template(path = "explore.html")]
struct SearchPage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    part: &'static str,
    asked: Asked,
    kinds: Vec<Choice>,
    sorts: Vec<Choice>,
    /// Whether something was searched for.
    is_search: bool,
    theses: Vec<ThesisRow>,
    profiles: Vec<ProfileRow>,
    tokens: Vec<TokenRow>,
    faults: Faults,
}

async fn search(console: &Console, workspace: &Workspace, asked: &Asked) -> Result<v1::SearchResult, Status> {
    let message = v1::SearchRequest {
        q: asked.text("q").to_owned(),
        types: parse_search_type(asked.text("types")).into_iter().map(i32::from).collect(),
        sort: parse_search_sort(asked.text("sort")).unwrap_or_default().into(),
        limit: Some(LIMIT),
        ..v1::SearchRequest::default()
    };
    let answer = console.core.search.search(workspace.request(message)).await?;
    Ok(answer.into_inner().result.unwrap_or_default())
}

pub(super) async fn show(State(console): State<Arc<Console>>, workspace: Workspace, asked: Asked) -> Page {
    let is_search = !asked.text("q").is_empty();
    let mut faults = Faults::none();
    let found = if is_search {
        match search(&console, &workspace, &asked).await {
            Ok(found) => found,
            Err(status) => {
                faults = faults_of(&status)?;
                v1::SearchResult::default()
            }
        }
    } else {
        let message = v1::ListThesesRequest { limit: Some(LIMIT), ..v1::ListThesesRequest::default() };
        let newest = theses::list(&console, &workspace, message).await?.data;
        v1::SearchResult { theses: newest, ..v1::SearchResult::default() }
    };
    let status = faults.status();
    let page = SearchPage {
        layout: workspace.layout("Explore"),
        tab: TAB,
        part: TAB,
        kinds: choices(KINDS, asked.text("types")),
        sorts: choices(SORTS, asked.text("sort")),
        is_search,
        theses: ThesisRow::all(&workspace, found.theses),
        profiles: ProfileRow::all(&workspace, found.profiles),
        tokens: TokenRow::all(&workspace, found.tokens),
        asked,
        workspace,
        faults,
    };
    render(status, &page)
}
