//! Events: the history with its filters, one event, and the ticket with which a page follows them live.

mod one;
mod query;
mod row;

use std::sync::Arc;

use askama::Template;
use axum::{
    Router,
    extract::{RawQuery, State},
    response::IntoResponse as _,
    routing::{get, post},
};
use http::header::CONTENT_TYPE;
use thesis_proto::{names::EVENT_TYPES, v1};

use self::{query::EventQuery, row::EventRow};
use super::{
    Workspace,
    filters::{FilterFields, TypeBox},
};
use crate::console::{
    Console, Page,
    form::{Faults, NoFields, Posted},
    view::{Layout, render},
};

/// The part of the workspace.
const TAB: &str = "/events";
/// The fields of the form that core or the page may refuse.
const FIELDS: [&str; 6] = ["types", "token", "handle", "chain", "created_after", "created_before"];

/// The routes.
pub(super) fn routes() -> Router<Arc<Console>> {
    Router::new()
        .route("/console/projects/{id}/{environment}/events", get(history))
        .route("/console/projects/{id}/{environment}/events/ticket", post(ticket))
        .route("/console/projects/{id}/{environment}/events/{event}", get(one::show))
}

/// The history of events.
#[derive(Template)]
#[template(path = "events.html")]
struct HistoryPage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    fields: FilterFields,
    boxes: Vec<TypeBox>,
    created_after: String,
    created_before: String,
    /// Whether anything but the newest events of all types is asked for.
    is_narrowed: bool,
    faults: Faults,
    /// What is wrong as a whole.
    trouble: Option<String>,
    rows: Vec<EventRow>,
    /// The path of the first page, on later ones.
    first: Option<String>,
    /// The path of the next page.
    next: Option<String>,
    /// The address of the stream of the same events, where new ones belong on the page.
    stream: Option<String>,
    /// The names of all event types, with a blank between two.
    type_names: String,
}

/// Shows a page of the history.
async fn history(State(console): State<Arc<Console>>, workspace: Workspace, RawQuery(query): RawQuery) -> Page {
    let asked = EventQuery::read(query.as_deref())?;
    let answer = match asked.message() {
        Ok(message) => console.core.events.list_events(workspace.request(message)).await,
        Err(status) => Err(status),
    };
    let (answer, faults) = match answer {
        Ok(answer) => (answer.into_inner(), Faults::none()),
        Err(status) => (v1::ListEventsResponse::default(), Faults::of(&status)?),
    };
    let is_marked = FIELDS.iter().any(|name| faults.field(name).is_some());
    let trouble = if is_marked { Some("See what is marked below.") } else { faults.whole() };
    let trouble = trouble.map(str::to_owned);
    let next = answer.next_cursor.as_deref().filter(|_| answer.has_more);
    let (fields, status) = (asked.fields(), faults.status());
    let names: Vec<&str> = EVENT_TYPES.iter().map(|(_, name)| *name).collect();
    let title = format!("Events of {}, {}", workspace.place.project.name, workspace.environment());
    let page = HistoryPage {
        layout: workspace.layout(&title),
        tab: TAB,
        boxes: fields.boxes(),
        rows: answer.data.iter().map(|event| EventRow::new(event, &workspace)).collect(),
        first: asked.is_later_page().then(|| workspace.path(&asked.path(None))),
        next: next.map(|cursor| workspace.path(&asked.path(Some(cursor)))),
        stream: (trouble.is_none() && asked.is_newest()).then(|| asked.stream_path()),
        is_narrowed: asked.is_narrowed(),
        type_names: names.join(" "),
        created_after: asked.created_after,
        created_before: asked.created_before,
        fields,
        faults,
        trouble,
        workspace,
    };
    render(status, &page)
}

/// Makes the ticket with which a page of the session opens a stream.
async fn ticket(State(console): State<Arc<Console>>, workspace: Workspace, _: Posted<NoFields>) -> Page {
    let request = workspace.request(v1::CreateStreamTicketRequest {});
    let made = console.core.events.create_stream_ticket(request).await?.into_inner();
    let ticket = made.stream_ticket.unwrap_or_default().ticket;
    let body = serde_json::json!({ "ticket": ticket }).to_string();
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}
