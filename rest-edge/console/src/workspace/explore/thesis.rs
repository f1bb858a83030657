//! One thesis.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use thesis_proto::{error::ApiError, names::source_name, time::to_millis, v1};

use super::{
    TAB, VERIFY,
    facts::{Fact, number, outside},
    missing,
};
use crate::{
    Page,
    page_query::{link, time_field},
    view::{Layout, exact_time, render},
    workspace::Workspace,
};

#[derive(Template)]
#[template(path = "thesis.html")]
struct ThesisPage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    part: &'static str,
    text: String,
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

pub(super) async fn show(workspace: Workspace, Path((_, _, id)): Path<(String, String, String)>) -> Page {
    let response = workspace.core().theses.get_thesis(workspace.request(v1::GetThesisRequest { id })).await;
    let answer = response.map_err(|status| missing(ApiError::from_status(&status)))?.into_inner();
    let thesis = answer.thesis.unwrap_or_default();
    let verify_href = verify_path(&workspace, &thesis);
    let receipt_href = format!("{}/receipt", workspace.thesis_path(&thesis.id));
    let source = source_name(thesis.source()).to_owned();
    let (profile, token) = (thesis.profile.unwrap_or_default(), thesis.token.unwrap_or_default());
    let page = ThesisPage {
        layout: workspace.layout(&format!("Thesis by {} on {}", profile.handle, token.symbol)),
        tab: TAB,
        part: "",
        text: thesis.text,
        author: match profile.display_name {
            Some(name) => format!("{} ({name})", profile.handle),
            None => profile.handle,
        },
        profile_href: workspace.profile_path(&profile.id),
        token: format!("{} on {}", token.symbol, token.chain),
        token_href: workspace.token_path(&token.id),
        facts: vec![
            ("Posted", exact_time(thesis.created_at.as_ref())),
            ("Last changed", exact_time(thesis.updated_at.as_ref())),
            ("Likes", number(thesis.likes)),
            ("Replies", number(thesis.replies)),
            ("Source", source),
            ("Id", thesis.id),
        ],
        public_url: outside(thesis.public_url),
        verify_href,
        receipt_href,
        workspace,
    };
    render(StatusCode::OK, &page)
}
