//! The derived events of a token: its activity and velocity, counted at one moment over the rows that the dataset's
//! readers see.

use crate::{
    domain::{
        dataset::Dataset,
        entry::{Entry, Kind, ThesisVelocity, TokenActivity},
        id,
        row::Token,
        window::DAY_MS,
    },
    store::StoreResult,
    tables::theses::ThesisStore,
};

const ACTIVITY: &str = "token.activity";

/// The id of a token's activity after its thesis at `covered`.
#[must_use]
pub fn activity_id(dataset: &str, token_id: &str, covered: u64) -> String {
    derived_id(ACTIVITY, dataset, token_id, covered)
}

fn derived_id(kind: &str, dataset: &str, token_id: &str, covered: u64) -> String {
    id::derive("evt_", &[kind, dataset, token_id, &covered.to_string()])
}

/// The two derived events of a token after its thesis at `covered`; none when the token is unknown.
///
/// # Errors
/// When the store does not answer.
pub async fn entries(
    theses: &ThesisStore,
    dataset: &Dataset,
    token_id: &str,
    covered: u64,
    at: i64,
) -> StoreResult<Option<[Entry; 2]>> {
    let Some((_, token)) = theses.token(&dataset.counted_with(), token_id).await? else {
        return Ok(None);
    };
    let view = dataset.counted_with();
    let counts = theses.counts(&view, token_id, at, DAY_MS).await?;
    let latest = theses.latest(&view, token_id, at, &counts).await?;
    let name = dataset.to_string();
    let entry = |kind_name: &str, kind: Kind| Entry {
        id: derived_id(kind_name, &name, token_id, covered),
        created_at: at,
        test: false,
        kind: Some(kind),
    };
    let activity = TokenActivity {
        token: Token::clone(&token),
        thesis_count_1h: counts.last_1h,
        thesis_count_24h: counts.last_24h,
        unique_authors_24h: counts.authors_24h,
        last_activity_at: latest.as_ref().map(|(at, _)| *at),
        latest_thesis_id: latest.map(|(_, id)| id),
    };
    let velocity = ThesisVelocity {
        token: Token::clone(&token),
        last_5m: counts.last_5m,
        last_1h: counts.last_1h,
        previous_1h: counts.previous_1h,
    };
    Ok(Some([
        entry(ACTIVITY, Kind::TokenActivity(activity)),
        entry("token.thesis_velocity", Kind::ThesisVelocity(velocity)),
    ]))
}
