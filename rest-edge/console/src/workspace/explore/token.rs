//! One token: its last 24 hours and the velocity of its theses, now or as of a time.

use askama::Template;
use axum::extract::Path;
use http::StatusCode;
use serde::Deserialize;
use thesis_proto::{
    error::{ApiError, ErrorCode},
    names::source_name,
    v1,
};
use tonic::Status;

use super::{
    TAB, THESES,
    chart::{HourRow, hours},
    facts::{Fact, outside},
    missing,
};
use crate::{
    Page,
    form::Faults,
    page_query::{PageQuery, link},
    view::{Layout, exact_time, group_digits, render, time},
    workspace::Workspace,
};

#[derive(Template)]
#[template(path = "token.html")]
struct TokenPage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    part: &'static str,
    facts: Vec<Fact>,
    platform_url: Option<String>,
    is_stale: bool,
    /// The path of this page.
    href: String,
    query: PageQuery,
    faults: Faults,
    activity: Vec<Fact>,
    hours: Vec<HourRow>,
    /// The largest number of theses in an hour.
    max_theses: String,
    velocity: Vec<Fact>,
    theses: Vec<v1::Thesis>,
    /// The path of the list of all its theses.
    all_href: String,
}

/// The figures of a token.
#[derive(Default)]
struct Figures {
    /// The token with its counts as of a time; none for the present.
    token: Option<v1::Token>,
    activity: v1::TokenActivity,
    velocity: v1::ThesisVelocity,
}

/// The page for a reference that several tokens match.
#[derive(Template)]
#[template(path = "token_ambiguous.html")]
struct AmbiguousPage {
    layout: Layout,
    workspace: Workspace,
    tab: &'static str,
    part: &'static str,
    candidates: Vec<(String, TokenCandidate)>,
}

/// A token that matches an ambiguous reference.
#[derive(Debug, Deserialize)]
pub(super) struct TokenCandidate {
    pub(super) id: String,
    pub(super) symbol: String,
    pub(super) chain: String,
    pub(super) address: String,
}

/// The tokens that match an ambiguous reference.
pub(super) fn candidates(error: &ApiError) -> Vec<TokenCandidate> {
    #[derive(Deserialize)]
    struct Details {
        candidates: Vec<TokenCandidate>,
    }
    let details = error.details.as_deref().and_then(|details| Details::deserialize(details).ok());
    details.map(|details| details.candidates).unwrap_or_default()
}

fn ambiguous(workspace: Workspace, error: &ApiError) -> Page {
    let leads = |candidate: TokenCandidate| (workspace.token_path(&candidate.id), candidate);
    let page = AmbiguousPage {
        layout: workspace.layout("Which token?"),
        tab: TAB,
        part: "",
        candidates: candidates(error).into_iter().map(leads).collect(),
        workspace,
    };
    render(StatusCode::CONFLICT, &page)
}

fn facts(token: v1::Token) -> Vec<Fact> {
    let source = source_name(token.source()).to_owned();
    let mut facts = vec![
        ("Symbol", token.symbol),
        ("Name", token.name.unwrap_or_else(|| "unknown".to_owned())),
        ("Chain", token.chain),
        ("Address", token.address),
    ];
    if let Some(chain_id) = token.chain_id {
        facts.push(("Chain's number", chain_id.to_string()));
    }
    facts.extend([
        ("Theses", group_digits(token.thesis_count)),
        ("Authors", group_digits(token.unique_thesis_authors)),
        ("First seen", time(token.first_seen_at.as_ref())),
        ("Last changed", time(token.updated_at.as_ref())),
    ]);
    if let Some(changed_at) = &token.source_updated_at {
        facts.push(("Changed at its source", time(Some(changed_at))));
    }
    facts.extend([("Source", source), ("Id", token.id)]);
    facts
}

fn activity_facts(activity: &v1::TokenActivity) -> Vec<Fact> {
    vec![
        ("Theses of the last hour", group_digits(activity.thesis_count_1h)),
        ("Theses of the last 24 hours", group_digits(activity.thesis_count_24h)),
        ("Authors of the last 24 hours", group_digits(activity.unique_authors_24h)),
        ("Last thesis", time(activity.last_activity_at.as_ref())),
        ("Counted at", exact_time(activity.computed_at.as_ref())),
    ]
}

fn velocity_facts(velocity: &v1::ThesisVelocity) -> Vec<Fact> {
    let change = match velocity.change_pct {
        Some(change) => format!("{change:+.1} %"),
        None => "unknown: there was no thesis in the hour before".to_owned(),
    };
    vec![
        ("Theses of the last 5 minutes", group_digits(velocity.last_5m)),
        ("Theses of the last hour", group_digits(velocity.last_1h)),
        ("Theses of the hour before", group_digits(velocity.previous_1h)),
        ("Change", change),
    ]
}

/// Reads the figures of a token as of the time in a query, or the present ones.
async fn figures(workspace: &Workspace, token: &str, query: &PageQuery) -> Result<Figures, Status> {
    let mut read = query.reader();
    let as_of = read.time("as_of");
    let as_of = read.finish(as_of)?;
    let tokens = &workspace.core().tokens;
    let id = || token.to_owned();
    let then = async {
        if as_of.is_none() {
            return Ok::<_, Status>(None);
        }
        let message = v1::GetTokenRequest { r#ref: id(), as_of, ..v1::GetTokenRequest::default() };
        Ok(tokens.get_token(workspace.request(message)).await?.into_inner().token)
    };
    let activity = v1::GetTokenActivityRequest { r#ref: id(), as_of, ..v1::GetTokenActivityRequest::default() };
    let velocity = v1::GetThesisVelocityRequest { r#ref: id(), as_of, ..v1::GetThesisVelocityRequest::default() };
    let (token, activity, velocity) = tokio::try_join!(
        then,
        tokens.get_token_activity(workspace.request(activity)),
        tokens.get_thesis_velocity(workspace.request(velocity)),
    )?;
    Ok(Figures {
        token,
        activity: activity.into_inner().activity.unwrap_or_default(),
        velocity: velocity.into_inner().velocity.unwrap_or_default(),
    })
}

pub(super) async fn show(
    workspace: Workspace,
    Path((_, _, reference)): Path<(String, String, String)>,
    query: PageQuery,
) -> Page {
    let tokens = &workspace.core().tokens;
    let message = v1::GetTokenRequest { r#ref: reference, chain: query.given("chain"), as_of: None };
    let mut token = match tokens.get_token(workspace.request(message)).await {
        Ok(answer) => answer.into_inner().token.unwrap_or_default(),
        Err(status) => {
            let error = ApiError::from_status(&status);
            if error.code == ErrorCode::AmbiguousToken {
                return ambiguous(workspace, &error);
            }
            return Err(missing(error));
        }
    };
    let (figures, faults) = Faults::of_query(figures(&workspace, &token.id, &query).await)?;
    let Figures { token: then, activity, velocity } = figures;
    let (hours, max_theses) = hours(&activity.timeline);
    let page = TokenPage {
        layout: workspace.layout(&format!("{} on {}", token.symbol, token.chain)),
        tab: TAB,
        part: "",
        platform_url: outside(token.platform_url.take()),
        is_stale: token.stale.unwrap_or_default(),
        all_href: link(&workspace.path(THESES), &[("token", &token.id)]),
        href: workspace.token_path(&token.id),
        facts: facts(then.unwrap_or(token)),
        activity: activity_facts(&activity),
        hours,
        max_theses: group_digits(max_theses),
        velocity: velocity_facts(&velocity),
        theses: activity.recent_theses,
        query,
        workspace,
        faults,
    };
    render(page.faults.status(), &page)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn candidates_are_read_from_the_error() {
        let one = json!({"id": "tk_1", "symbol": "$RUN", "name": null, "chain": "solana", "address": "Mint"});
        let error = ApiError::new(ErrorCode::AmbiguousToken, "several");
        assert!(candidates(&error).is_empty());
        let found = candidates(&error.with_details(json!({ "candidates": [one] })));
        assert_eq!((found.len(), &*found[0].id, &*found[0].chain), (1, "tk_1", "solana"));
    }

    #[test]
    fn a_change_is_said_with_its_sign() {
        let said = |change_pct| {
            let velocity = v1::ThesisVelocity { change_pct, ..v1::ThesisVelocity::default() };
            velocity_facts(&velocity).pop().map(|(_, text)| text).unwrap()
        };
        assert_eq!((said(Some(12.34)), said(Some(-100.0))), ("+12.3 %".to_owned(), "-100.0 %".to_owned()));
        assert!(said(None).starts_with("unknown"));
    }
}
