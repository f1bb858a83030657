//! The derived events of a token: its activity and velocity, counted at one moment over the rows that the dataset's
//! readers see.

use crate::{
    domain::{
        dataset::{Dataset, View},
        derivation::{Counts, count},
        entry::{Entry, Kind, ThesisVelocity, TokenActivity},
        id,
        row::Token,
        window::DAY_MS,
    },
    service::core::Shared,
    store::{
        StoreResult,
        theses::{IndexScope, Stretch},
    },
};

/// Counts a token's theses at `at`, over the datasets that are counted with this one.
///
/// # Errors
/// When the store does not answer.
pub async fn counts(shared: &Shared, dataset: &Dataset, token: &str, at: i64) -> StoreResult<Counts> {
    let theses = super::tokens::window(shared, &dataset.counted_with(), token, at - DAY_MS, at).await?;
    Ok(count(&theses, at))
}

/// The newest thesis of a token, however old, with its time.
async fn newest(shared: &Shared, view: &View, token: &str, at: i64) -> StoreResult<Option<(i64, String)>> {
    let stretch = Stretch { from: i64::MIN / 2, to: at, after: None, descending: true };
    let mut newest = None;
    for dataset in view.datasets() {
        let rows = shared.theses.stretch(dataset, &IndexScope::Token(token.to_owned()), &stretch, 1).await?;
        newest = newest.max(rows.into_iter().next().map(|row| (row.created_at, row.id)));
    }
    Ok(newest)
}

/// The two derived events of a token after its thesis at `covered`; none when the token is unknown.
///
/// # Errors
/// When the store does not answer.
pub async fn entries(
    shared: &Shared,
    dataset: &Dataset,
    token_id: &str,
    covered: u64,
    at: i64,
) -> StoreResult<Option<[Entry; 2]>> {
    let Some((_, token)) = shared.theses.token(&dataset.counted_with(), token_id).await? else {
        return Ok(None);
    };
    let counts = counts(shared, dataset, token_id, at).await?;
    let latest = match counts.latest {
        Some(latest) => Some(latest),
        None => newest(shared, &dataset.counted_with(), token_id, at).await?,
    };
    let (name, covered) = (dataset.to_string(), covered.to_string());
    let entry = |kind_name: &str, kind: Kind| Entry {
        id: id::derive("evt_", &[kind_name, &name, token_id, &covered]),
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
        entry("token.activity", Kind::TokenActivity(activity)),
        entry("token.thesis_velocity", Kind::ThesisVelocity(velocity)),
    ]))
}
