//! The derived events of a token: its activity and velocity. Both are counted at one moment over the rows that readers
//! of the dataset see.

use crate::domain::{
    derivation::Counts,
    entry::{Entry, Kind, ThesisVelocity, TokenActivity},
    id,
    row::Token,
};

const ACTIVITY: &str = "token.activity";

fn derived_id(kind: &str, dataset: &str, token_id: &str, covered: u64) -> String {
    id::derive("evt_", &[kind, dataset, token_id, &covered.to_string()])
}

/// The two derived events of a token after its thesis at `covered`, counted at `at`; `latest` is its newest thesis.
pub fn entries(
    dataset: &str,
    token: &Token,
    covered: u64,
    at: i64,
    counts: &Counts,
    latest: Option<(i64, String)>,
) -> [Entry; 2] {
    let entry = |kind_name: &str, kind: Kind| Entry {
        id: derived_id(kind_name, dataset, &token.id, covered),
        created_at: at,
        test: false,
        kind: Some(kind),
        trace: Vec::new(),
        salt: Vec::new(),
    };
    let activity = TokenActivity {
        token: token.clone(),
        thesis_count_1h: counts.last_1h,
        thesis_count_24h: counts.last_24h,
        unique_authors_24h: counts.authors_24h,
        last_activity_at: latest.as_ref().map(|(at, _)| *at),
        latest_thesis_id: latest.map(|(_, id)| id),
    };
    let velocity = ThesisVelocity {
        token: token.clone(),
        last_5m: counts.last_5m,
        last_1h: counts.last_1h,
        previous_1h: counts.previous_1h,
    };
    [entry(ACTIVITY, Kind::TokenActivity(activity)), entry("token.thesis_velocity", Kind::ThesisVelocity(velocity))]
}
