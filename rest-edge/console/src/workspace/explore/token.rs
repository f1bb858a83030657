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
    THESES,
    chart::{Chart, HourRow, hours},
    facts::{Fact, outside},
    missing,
};
use crate::{
    Page,
    form::Faults,
    page_query::{PageQuery, link},
    view::{Layout, group_digits, render},
    workspace::Workspace,
};

#[derive(Template)]
#[template(path = "token.html")]
struct TokenPage {
    layout: Layout,
    workspace: Workspace,
    name: Option<String>,
    /// Theses by hour; none without any.
    chart: Option<Chart>,
    hours: Vec<HourRow>,
    /// The three main figures, with their names.
    figures: [(&'static str, String); 3],
    /// The other counts.
    counts: Vec<(&'static str, String)>,
    facts: Vec<Fact>,
    platform_url: Option<String>,
    is_stale: bool,
    /// The path of this page.
    href: String,
    /// True if the query names a time.
    is_as_of: bool,
    query: PageQuery,
    faults: Faults,
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
        part: "",
        candidates: candidates(error).into_iter().map(leads).collect(),
        workspace,
    };
    render(StatusCode::CONFLICT, &page)
}

fn facts(token: v1::Token, activity: &v1::TokenActivity) -> Vec<Fact> {
    let source = source_name(token.source());
    let mut facts = vec![Fact::text("Symbol", token.symbol), Fact::text("Chain", token.chain)];
    if let Some(chain_id) = token.chain_id {
        facts.push(Fact::text("Chain ID", chain_id.to_string()));
    }
    facts.extend([
        Fact::code("Address", token.address),
        Fact::code("Id", token.id),
        Fact::text("Source", source),
        Fact::time("First seen", token.first_seen_at),
        Fact::time("Last thesis", activity.last_activity_at),
        Fact::time("Last changed", token.updated_at),
    ]);
    if token.source_updated_at.is_some() {
        facts.push(Fact::time("Changed at its source", token.source_updated_at));
    }
    facts.push(Fact::time("Counted at", activity.computed_at));
    facts
}

/// The change of theses from one hour to the next; none without theses in the hour before.
fn change(velocity: &v1::ThesisVelocity) -> String {
    velocity.change_pct.map_or_else(|| "unknown".to_owned(), |change| format!("{change:+.1} %"))
}

fn main_figures(activity: &v1::TokenActivity, velocity: &v1::ThesisVelocity) -> [(&'static str, String); 3] {
    [
        ("Theses of the last 24 hours", group_digits(activity.thesis_count_24h)),
        ("Authors of the last 24 hours", group_digits(activity.unique_authors_24h)),
        ("Change", change(velocity)),
    ]
}

fn counts(
    token: &v1::Token,
    activity: &v1::TokenActivity,
    velocity: &v1::ThesisVelocity,
) -> Vec<(&'static str, String)> {
    vec![
        ("Theses", group_digits(token.thesis_count)),
        ("Authors", group_digits(token.unique_thesis_authors)),
        ("Theses of the last hour", group_digits(activity.thesis_count_1h)),
        ("Theses of the last 5 minutes", group_digits(velocity.last_5m)),
        ("Theses of the hour before", group_digits(velocity.previous_1h)),
    ]
}

/// Reads the figures of a token as of the time in a query, or the present ones.
async fn figures(workspace: &Workspace, token: &str, query: &PageQuery) -> Result<Figures, Status> {
    let mut read = query.reader();
    let as_of = read.time("as_of");
    let as_of = read.finish(as_of)?;
    let id = || token.to_owned();
    let then = async {
        if as_of.is_none() {
            return Ok::<_, Status>(None);
        }
        let message = v1::GetTokenRequest { r#ref: id(), as_of, ..v1::GetTokenRequest::default() };
        Ok(workspace.core().tokens.get_token(workspace.request(message)).await?.into_inner().token)
    };
    let activity = v1::GetTokenActivityRequest { r#ref: id(), as_of, ..v1::GetTokenActivityRequest::default() };
    let velocity = v1::GetThesisVelocityRequest { r#ref: id(), as_of, ..v1::GetThesisVelocityRequest::default() };
    let (token, activity, velocity) = tokio::try_join!(
        then,
        workspace.core().tokens.get_token_activity(workspace.request(activity)),
        workspace.core().tokens.get_thesis_velocity(workspace.request(velocity)),
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
    let message = v1::GetTokenRequest { r#ref: reference, chain: query.given("chain"), as_of: None };
    let mut token = match workspace.core().tokens.get_token(workspace.request(message)).await {
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
    let platform_url = outside(token.platform_url.take());
    let is_stale = token.stale.unwrap_or_default();
    let caption = "Theses by hour of the 24 hours before the time of the count".to_owned();
    let (all_href, href) = (link(&workspace.path(THESES), &[("token", &token.id)]), workspace.token_path(&token.id));
    let mut shown = then.unwrap_or(token);
    let page = TokenPage {
        layout: workspace.layout(&format!("{} on {}", shown.symbol, shown.chain)),
        name: shown.name.take(),
        chart: Chart::of_hours(&activity.timeline, caption),
        hours: hours(&activity.timeline),
        figures: main_figures(&activity, &velocity),
        counts: counts(&shown, &activity, &velocity),
        facts: facts(shown, &activity),
        platform_url,
        is_stale,
        all_href,
        href,
        is_as_of: query.has_value(&["as_of"]),
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
        let said = |change_pct| change(&v1::ThesisVelocity { change_pct, ..v1::ThesisVelocity::default() });
        assert_eq!((said(Some(12.34)), said(Some(-100.0))), ("+12.3 %".to_owned(), "-100.0 %".to_owned()));
        assert_eq!(said(None), "unknown");
    }
}
