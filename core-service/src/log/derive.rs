//! The derived events of a token: its activity and velocity. Both are counted at one moment over the rows that readers
//! of the dataset see.

use crate::domain::{
    derivation::Counts,
    entry::{Entry, Kind, ThesisVelocity, TokenActivity},
    row::Token,
};

/// The two derived events of a token, with these ids, counted at `at`; `latest` is its newest thesis.
pub fn entries(
    [activity_id, velocity_id]: [String; 2],
    token: &Token,
    at: i64,
    counts: &Counts,
    latest: Option<(i64, String)>,
) -> [Entry; 2] {
    let entry = |id: String, kind: Kind| Entry {
        id,
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
    [entry(activity_id, Kind::TokenActivity(activity)), entry(velocity_id, Kind::ThesisVelocity(velocity))]
}
