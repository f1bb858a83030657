//! One profile, with its newest theses.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use thesis_proto::{error::ApiError, names::source_name, v1};

use super::{
    TAB, THESES,
    facts::{Fact, outside},
    missing, theses,
};
use crate::{
    Page,
    page_query::link,
    view::{Layout, render, time},
    workspace::Workspace,
};

/// The page shows at most this many theses.
const LIMIT: i32 = 10;

#[derive(Template)]
#[template(path = "profile.html")]
struct ProfilePage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    part: &'static str,
    bio: Option<String>,
    facts: Vec<Fact>,
    platform_url: Option<String>,
    is_stale: bool,
    theses: Vec<v1::Thesis>,
    /// The path of the list of all its theses.
    all_href: String,
}

fn facts(profile: v1::Profile) -> Vec<Fact> {
    let source = source_name(profile.source()).to_owned();
    let verified = match profile.verified {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let mut facts = vec![
        ("Handle", profile.handle),
        ("Name", profile.display_name.unwrap_or_else(|| "unknown".to_owned())),
        ("Verified by the platform", verified.to_owned()),
    ];
    if let Some(created_at) = &profile.created_at {
        facts.push(("Created", time(Some(created_at))));
    }
    facts.push(("First seen", time(profile.first_seen_at.as_ref())));
    facts.push(("Last changed", time(profile.updated_at.as_ref())));
    if let Some(changed_at) = &profile.source_updated_at {
        facts.push(("Changed at its source", time(Some(changed_at))));
    }
    if let Some(wallet) = profile.wallet {
        facts.push(("Wallet", format!("{} on {}", wallet.address, wallet.network)));
    }
    facts.extend([("Source", source), ("Id", profile.id)]);
    facts
}

pub(super) async fn show(workspace: Workspace, Path((_, _, reference)): Path<(String, String, String)>) -> Page {
    let message = v1::GetProfileRequest { r#ref: Some(reference), ..v1::GetProfileRequest::default() };
    let response = workspace.core().profiles.get_profile(workspace.request(message)).await;
    let answer = response.map_err(|status| missing(ApiError::from_status(&status)))?.into_inner();
    let mut profile = answer.profile.unwrap_or_default();
    let message = v1::ListThesesRequest {
        profile: Some(profile.id.clone()),
        limit: Some(LIMIT),
        ..v1::ListThesesRequest::default()
    };
    let newest = theses::list(&workspace, message).await?.data;
    let page = ProfilePage {
        layout: workspace.layout(&profile.handle),
        tab: TAB,
        part: "",
        bio: profile.bio.take(),
        platform_url: outside(profile.profile_url.take()),
        is_stale: profile.stale.unwrap_or_default(),
        theses: newest,
        all_href: link(&workspace.path(THESES), &[("profile", &profile.id)]),
        facts: facts(profile),
        workspace,
    };
    render(StatusCode::OK, &page)
}
