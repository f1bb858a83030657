//! One profile, with its newest theses.

use std::collections::BTreeSet;

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use thesis_proto::{error::ApiError, names::source_name, v1};

use super::{
    THESES,
    chart::Chart,
    facts::{Fact, outside},
    missing, theses,
};
use crate::{
    Page,
    page_query::link,
    view::{Layout, group_digits, render},
    workspace::Workspace,
};

/// The figures are counted from at most this many theses, and the page shows the newest of them.
const LIMIT: i32 = 100;
const SHOWN: usize = 10;
/// The chart has this many days.
const DAYS: i64 = 14;

#[derive(Template)]
#[template(path = "profile.html")]
struct ProfilePage {
    layout: Layout,
    workspace: Workspace,
    name: Option<String>,
    bio: Option<String>,
    /// Theses by day; none without any.
    chart: Option<Chart>,
    /// The three main figures, with their names.
    figures: [(&'static str, String); 3],
    facts: Vec<Fact>,
    platform_url: Option<String>,
    is_stale: bool,
    theses: Vec<v1::Thesis>,
    /// The path of the list of all its theses.
    all_href: String,
}

fn facts(profile: v1::Profile) -> Vec<Fact> {
    let source = source_name(profile.source());
    let verified = match profile.verified {
        Some(true) => "yes",
        Some(false) => "no",
        None => "unknown",
    };
    let mut facts = vec![
        Fact::text("Handle", profile.handle),
        Fact::text("Verified by the platform", verified),
        Fact::code("Id", profile.id),
        Fact::text("Source", source),
    ];
    if let Some(wallet) = profile.wallet {
        facts.push(Fact::code("Wallet", wallet.address));
        facts.push(Fact::text("Network of the wallet", wallet.network));
    }
    if profile.created_at.is_some() {
        facts.push(Fact::time("Created", profile.created_at));
    }
    facts.push(Fact::time("First seen", profile.first_seen_at));
    facts.push(Fact::time("Last changed", profile.updated_at));
    if profile.source_updated_at.is_some() {
        facts.push(Fact::time("Changed at its source", profile.source_updated_at));
    }
    facts
}

/// Figures of the newest theses: how many there are, on how many tokens, and how many likes they have.
fn figures(theses: &[v1::Thesis], has_more: bool) -> [(&'static str, String); 3] {
    let tokens: BTreeSet<_> =
        theses.iter().filter_map(|thesis| thesis.token.as_ref()).map(|token| token.id.as_str()).collect();
    let likes = theses.iter().filter_map(|thesis| thesis.likes).fold(0, i64::saturating_add);
    let more = if has_more { "+" } else { "" };
    [
        ("Theses in your history", format!("{}{more}", group_digits(theses.len()))),
        ("Tokens they are on", format!("{}{more}", tokens.len())),
        ("Likes of them", format!("{}{more}", group_digits(likes))),
    ]
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
    let listed = theses::list(&workspace, message).await?;
    let (has_more, mut newest) = (listed.has_more, listed.data);
    let now_ms = workspace.signed_in.visit.console.clock.now_ms();
    let caption = format!("Theses by day of the last {DAYS} days, of the newest {LIMIT} at most");
    let chart = Chart::of_days(&newest, now_ms, DAYS, caption);
    let figures = figures(&newest, has_more);
    newest.truncate(SHOWN);
    let page = ProfilePage {
        layout: workspace.layout(&profile.handle),
        name: profile.display_name.take(),
        bio: profile.bio.take(),
        chart,
        figures,
        platform_url: outside(profile.profile_url.take()),
        is_stale: profile.stale.unwrap_or_default(),
        theses: newest,
        all_href: link(&workspace.path(THESES), &[("profile", &profile.id)]),
        facts: facts(profile),
        workspace,
    };
    render(StatusCode::OK, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_partial_count_say_that_there_are_more() {
        let thesis = |token: &str, likes| v1::Thesis {
            token: Some(v1::TokenRef { id: token.to_owned(), ..v1::TokenRef::default() }),
            likes,
            ..v1::Thesis::default()
        };
        let theses = [thesis("tk_1", Some(1_000)), thesis("tk_1", None), thesis("tk_2", Some(1))];
        let texts = |has_more| figures(&theses, has_more).map(|(_, text)| text);
        assert_eq!(texts(false), ["3", "2", "1,001"]);
        assert_eq!(texts(true), ["3+", "2+", "1,001+"]);
    }
}
