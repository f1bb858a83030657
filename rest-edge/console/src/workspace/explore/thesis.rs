//! One thesis.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use prost_types::Timestamp;
use thesis_proto::{
    error::ApiError,
    names::source_name,
    time::{from_millis, to_millis},
    v1,
};

use super::{
    VERIFY,
    chart::Chart,
    facts::{Fact, number, outside},
    missing,
};
use crate::{
    Page,
    page_query::{link, time_field},
    view::{Layout, render},
    workspace::Workspace,
};

#[derive(Template)]
#[template(path = "thesis.html")]
struct ThesisPage {
    layout: Layout,
    text: String,
    /// Theses on the token in the hours before this one; none if they are not known.
    chart: Option<Chart>,
    posted: Option<Timestamp>,
    /// Counts from the platform, such as likes.
    likes: String,
    replies: String,
    author: String,
    profile_href: String,
    token: String,
    token_href: String,
    facts: Vec<Fact>,
    public_url: Option<String>,
    verify_href: String,
    receipt_href: String,
}

/// The path of the verification that finds a thesis by its author, token and time.
fn verify_path(workspace: &Workspace, thesis: &v1::Thesis) -> String {
    let at = thesis.created_at.as_ref().map_or(0, to_millis);
    // The form's fields have whole seconds.
    let (after, before) = (time_field(at), time_field(at + 1_000));
    let profile = thesis.profile.as_ref().map_or("", |profile| &profile.id);
    let token = thesis.token.as_ref().map_or("", |token| &token.id);
    let query = [("profile_id", profile), ("token", token), ("created_after", &*after), ("created_before", &*before)];
    link(&workspace.path(VERIFY), &query)
}

/// The chart of the token in the 24 hours up to a thesis. A thesis from before the history of the plan has none.
async fn chart(workspace: &Workspace, thesis: &v1::Thesis) -> Option<Chart> {
    let token = thesis.token.as_ref()?;
    // Counts as of a time exclude that millisecond, so add one to include this thesis.
    let as_of = Some(from_millis(to_millis(thesis.created_at.as_ref()?) + 1));
    let message =
        v1::GetTokenActivityRequest { r#ref: token.id.clone(), as_of, ..v1::GetTokenActivityRequest::default() };
    let answer = workspace.core().tokens.get_token_activity(workspace.request(message)).await.ok()?;
    let caption = format!("Theses on {} by hour, in the 24 hours up to this one", token.symbol);
    Chart::of_hours(&answer.into_inner().activity?.timeline, caption)
}

pub(super) async fn show(workspace: Workspace, Path((_, _, id)): Path<(String, String, String)>) -> Page {
    let response = workspace.core().theses.get_thesis(workspace.request(v1::GetThesisRequest { id })).await;
    let answer = response.map_err(|status| missing(ApiError::from_status(&status)))?.into_inner();
    let thesis = answer.thesis.unwrap_or_default();
    let verify_href = verify_path(&workspace, &thesis);
    let receipt_href = format!("{}/receipt", workspace.thesis_path(&thesis.id));
    let chart = chart(&workspace, &thesis).await;
    let source = source_name(thesis.source());
    let (profile, token) = (thesis.profile.unwrap_or_default(), thesis.token.unwrap_or_default());
    let page = ThesisPage {
        layout: workspace.layout(&format!("Thesis by {} on {}", profile.handle, token.symbol)),
        text: thesis.text,
        author: match profile.display_name {
            Some(name) => format!("{} ({name})", profile.handle),
            None => profile.handle,
        },
        profile_href: workspace.profile_path(&profile.id),
        token: format!("{} on {}", token.symbol, token.chain),
        token_href: workspace.token_path(&token.id),
        chart,
        posted: thesis.created_at,
        likes: number(thesis.likes),
        replies: number(thesis.replies),
        facts: vec![
            Fact::code("Id", thesis.id),
            Fact::text("Source", source),
            Fact::time("Posted", thesis.created_at),
            Fact::time("Last changed", thesis.updated_at),
        ],
        public_url: outside(thesis.public_url),
        verify_href,
        receipt_href,
    };
    render(StatusCode::OK, &page)
}
