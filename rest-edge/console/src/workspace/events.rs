//! Events: the history with its filters, one event, and the ticket for the live stream of a page.

mod query;
mod resume;
mod row;
mod single;

use askama::Template;
use axum::{
    Router,
    response::IntoResponse as _,
    routing::{get, post},
};
use http::header::CONTENT_TYPE;
use thesis_proto::{names::EVENT_TYPES, v1};
use tonic::Status;

use self::query::{KEPT, message, stream_path};
pub use self::row::line;
pub(super) use self::row::{kind, source};
use super::{
    Workspace,
    code_sample::CodeSample,
    filters::{FilterFields, TypeBox},
};
use crate::{
    Page,
    form::{Faults, NoFields, Posted},
    page_query::PageQuery,
    view::{Layout, render},
};

const TAB: &str = "/events";

pub(super) fn routes() -> Router {
    Router::new()
        .route("/console/projects/{id}/{environment}/events", get(history))
        .route("/console/projects/{id}/{environment}/events/ticket", post(ticket))
        .route("/console/projects/{id}/{environment}/events/{event}", get(single::show))
}

#[derive(Template)]
#[template(path = "events.html")]
struct HistoryPage {
    layout: Layout,
    workspace: Workspace,
    fields: FilterFields,
    boxes: Vec<TypeBox>,
    query: PageQuery,
    /// True if the query filters the events.
    is_narrowed: bool,
    faults: Faults,
    rows: Vec<v1::Event>,
    /// The path of the first page; none on that page.
    first: Option<String>,
    next: Option<String>,
    /// The path of the stream with the same filters, if the page shows the newest events.
    stream: Option<String>,
    /// The names of all event types, separated by spaces.
    type_names: String,
    /// The code that continues the stream. The page's script writes the cursor into it.
    samples: Vec<CodeSample>,
}

async fn find(workspace: &Workspace, query: &PageQuery) -> Result<v1::ListEventsResponse, Status> {
    Ok(workspace.core().events.list_events(workspace.request(message(query)?)).await?.into_inner())
}

async fn history(workspace: Workspace, query: PageQuery) -> Page {
    let (answer, faults) = Faults::of_query(find(&workspace, &query).await)?;
    let next = answer.next_cursor.as_deref().filter(|_| answer.has_more);
    let fields = FilterFields::of_query(&query);
    let names: Vec<&str> = EVENT_TYPES.iter().map(|(_, name)| *name).collect();
    let path = |cursor: Option<&str>| query.link(&workspace.path(TAB), KEPT, cursor);
    let is_newest = !query.has_value(&["cursor", "created_before"]);
    let page = HistoryPage {
        layout: workspace.layout("Events"),
        boxes: fields.boxes(),
        rows: answer.data,
        first: query.given("cursor").map(|_| path(None)),
        next: next.map(|cursor| path(Some(cursor))),
        stream: (faults.whole().is_none() && is_newest).then(|| stream_path(&fields)),
        is_narrowed: query.has_value(KEPT),
        type_names: names.join(" "),
        samples: resume::samples(&fields, &workspace.signed_in.visit.console.public_url),
        query,
        fields,
        faults,
        workspace,
    };
    render(page.faults.status(), &page)
}

/// Creates the ticket with which a page of the session opens a stream.
async fn ticket(workspace: Workspace, _: Posted<NoFields>) -> Page {
    let request = workspace.request(v1::CreateStreamTicketRequest {});
    let created = workspace.change(workspace.core().events.create_stream_ticket(request)).await?.into_inner();
    let ticket = created.stream_ticket.unwrap_or_default().ticket;
    let body = serde_json::json!({ "ticket": ticket }).to_string();
    Ok(([(CONTENT_TYPE, "application/json")], body).into_response())
}
