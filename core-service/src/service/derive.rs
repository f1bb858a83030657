//! The derived events of a token: its activity and velocity, counted at one moment over the rows that the dataset's
//! readers see.

use crate::{
    domain::{
        dataset::Dataset,
        derivation::{Counted, Counts, count},
        entry::{Entry, Kind, ThesisVelocity, TokenActivity},
        id,
        window::DAY_MS,
    },
    service::core::Shared,
    store::{
        StoreResult,
        theses::{IndexScope, Stretch},
    },
};

/// Theses of one token and day that are counted at most.
const COUNTED: usize = 5_000_000;

/// Counts a token's theses at `at`, over the datasets that are counted with this one.
///
/// # Errors
/// When the store does not answer.
pub async fn counts(shared: &Shared, dataset: &Dataset, token: &str, at: i64) -> StoreResult<Counts> {
    let stretch = Stretch { from: at - DAY_MS + 1, to: at, after: None, descending: true };
    let scope = IndexScope::Token(token.to_owned());
    let mut theses = Vec::new();
    for dataset in dataset.counted_with().datasets() {
        let rows = shared.theses.stretch(dataset, &scope, &stretch, COUNTED).await?;
        theses.extend(rows.into_iter().map(|row| Counted {
            created_at: row.created_at,
            id: row.id,
            profile_id: row.profile_id,
        }));
    }
    Ok(count(&theses, at))
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
    let (name, covered) = (dataset.to_string(), covered.to_string());
    let entry = |kind_name: &str, kind: Kind| Entry {
        id: id::derive("evt_", &[kind_name, &name, token_id, &covered]),
        created_at: at,
        test: false,
        kind: Some(kind),
    };
    let activity = TokenActivity {
        token: token.clone(),
        thesis_count_1h: counts.last_1h,
        thesis_count_24h: counts.last_24h,
        unique_authors_24h: counts.authors_24h,
        last_activity_at: counts.latest.as_ref().map(|(at, _)| *at),
        latest_thesis_id: counts.latest.map(|(_, id)| id),
    };
    let velocity =
        ThesisVelocity { token, last_5m: counts.last_5m, last_1h: counts.last_1h, previous_1h: counts.previous_1h };
    Ok(Some([
        entry("token.activity", Kind::TokenActivity(activity)),
        entry("token.thesis_velocity", Kind::ThesisVelocity(velocity)),
    ]))
}
