//! The page of one event: its line, the resources that it concerns, its deliveries to webhooks, and its JSON as streams
//! and webhooks send it.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use prost_types::Timestamp;
use thesis_proto::{
    json,
    v1::{self, event::Data},
};

use super::{
    super::{
        Workspace,
        deliveries::of_event::{EventDelivery, deliveries_of},
    },
    kind, line, source,
};
use crate::{
    Page,
    failure::Failed,
    view::{Layout, MAX_SHOWN, cut_markup, render},
};

/// A resource that an event concerns.
struct EventSubject {
    name: &'static str,
    label: String,
    href: String,
}

#[derive(Template)]
#[template(path = "event.html")]
struct EventPage {
    layout: Layout,
    workspace: Workspace,
    id: String,
    kind: &'static str,
    line: String,
    at: Option<Timestamp>,
    source: String,
    subjects: Vec<EventSubject>,
    /// Its deliveries; none if they cannot be read.
    deliveries: Option<Vec<EventDelivery>>,
    /// The event as streams and webhooks send it, indented, and cut if it is too long.
    json: String,
    /// True if the JSON is not cut.
    is_whole: bool,
}

pub(super) async fn show(workspace: Workspace, Path((_, _, id)): Path<(String, String, String)>) -> Page {
    let answer = workspace.core().events.get_event(workspace.request(v1::GetEventRequest { id })).await?;
    let event = answer.into_inner().event.ok_or_else(Failed::missing)?;
    let json = serde_json::to_string_pretty(&json::Event::from(&event)).expect("texts always serialise");
    let (shown, is_whole) = cut_markup(&json, MAX_SHOWN);
    let deliveries = deliveries_of(&workspace, &event).await;
    let page = EventPage {
        layout: workspace.layout(&format!("Event {}", event.id)),
        kind: kind(&event),
        line: line(&event),
        at: event.created_at,
        source: source(&event),
        subjects: subjects(&event, &workspace),
        deliveries,
        json: shown.to_owned(),
        is_whole,
        id: event.id,
        workspace,
    };
    render(StatusCode::OK, &page)
}

/// The resources that an event concerns, with their links.
fn subjects(event: &v1::Event, workspace: &Workspace) -> Vec<EventSubject> {
    let subject = |name: &'static str, folder: &str, id: &str, label: &str| EventSubject {
        name,
        label: label.to_owned(),
        href: workspace.path(&format!("/explore/{folder}/{id}")),
    };
    let (thesis, profile, token) = match &event.data {
        Some(Data::ThesisCreated(data)) => {
            let profile = data.profile.as_ref().map(|profile| (&profile.id, &profile.handle));
            (Some(&data.thesis_id), profile, data.token.as_ref())
        }
        Some(Data::ProfileUpdated(data)) => {
            (None, data.profile.as_ref().map(|profile| (&profile.id, &profile.handle)), None)
        }
        Some(Data::TokenActivity(data)) => (data.latest_thesis_id.as_ref(), None, data.token.as_ref()),
        Some(Data::TokenThesisVelocity(data)) => (None, None, data.token.as_ref()),
        Some(Data::Alert(data)) => (None, None, data.alert.as_ref().and_then(|alert| alert.token.as_ref())),
        None => (None, None, None),
    };
    let thesis = thesis.map(|id| subject("Thesis", "theses", id, id));
    let profile = profile.map(|(id, handle)| subject("Profile", "profiles", id, handle));
    let token = token.map(|token| subject("Token", "tokens", &token.id, &token.symbol));
    [thesis, profile, token].into_iter().flatten().collect()
}
