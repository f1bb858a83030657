//! Reads tokens with their counts. Every count equals what its reader would get by listing and counting: theses of all
//! datasets in the view, an author in several of them once.

use std::sync::Arc;

use thesis_proto::{
    error::{ApiError, ErrorCode},
    json,
    time::from_millis,
    v1,
};

use super::{
    core::{Core, Shared},
    error::{Error, Result},
    gate::Call,
    list_theses::{Slices, by_time, still_there, with_references},
    resolve,
};
use crate::{
    convert,
    domain::{
        dataset::{Dataset, View},
        derivation::Hour,
        row::Token,
        window::{DAY_MS, HOUR_MS},
    },
    store::{StoreResult, theses::IndexScope},
};

/// Finds the one token that a reference names.
///
/// # Errors
/// `AMBIGUOUS_TOKEN` with the candidates when there are several, or when the store does not answer.
pub async fn find(
    core: &Core,
    call: &Call,
    reference: &str,
    chain: Option<&str>,
) -> Result<Option<(Dataset, Arc<Token>)>> {
    let view = &call.caller.view;
    let mut ids = resolve::token_ids(&core.shared, view, reference, chain).await?;
    ids.truncate(resolve::MAX_TOKENS);
    let mut found = Vec::new();
    for id in &ids {
        found.extend(core.shared.theses.token(view, id).await?);
    }
    if found.len() < 2 {
        return Ok(found.pop());
    }
    let references: Vec<v1::TokenRef> = found.iter().map(|(_, token)| convert::row::token_ref(token)).collect();
    let candidates: Vec<_> = references.iter().map(json::TokenRef::from).collect();
    let message = "this names several tokens; give the chain or the address";
    let details = serde_json::json!({ "candidates": candidates });
    Err(ApiError::new(ErrorCode::AmbiguousToken, message).with_param("token").with_details(details).into())
}

async fn found(core: &Core, call: &Call, reference: &str, chain: Option<&str>) -> Result<(Dataset, Arc<Token>)> {
    let not_found = || Error::new(ErrorCode::TokenNotFound, "there is no such token");
    find(core, call, reference, chain).await?.ok_or_else(not_found)
}

/// All theses of a token that a view shows, and their authors.
async fn totals(shared: &Shared, view: &View, token: &str) -> StoreResult<(i64, i64)> {
    let (mut theses, mut authors) = (0, 0);
    for dataset in view.datasets() {
        for totals in shared.theses.totals(&dataset.to_string(), &[token]).await? {
            theses += totals.theses;
            authors += totals.authors;
        }
    }
    if let [first, second] = view.datasets() {
        // Who writes in both is the sandbox's, whose authors of a token are few.
        let shared_authors = shared.theses.authors(&first.to_string(), token).await?;
        let pairs: Vec<_> = shared_authors.iter().map(|author| (token, author.as_str())).collect();
        let in_second = shared.theses.of_authors(&second.to_string(), &pairs).await?;
        let twice = in_second.iter().filter(|count| **count > 0).count();
        authors -= i64::try_from(twice).unwrap_or_default();
    }
    Ok((theses, authors))
}

/// Reads a token's metadata and counts.
///
/// # Errors
/// `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, or when the store does not answer.
pub async fn get(core: &Core, call: &Call, reference: &str, chain: Option<&str>) -> Result<v1::Token> {
    let (dataset, token) = found(core, call, reference, chain).await?;
    counted(core, call, &dataset, &token).await
}

/// A token with its counts.
///
/// # Errors
/// When the store does not answer.
pub async fn counted(core: &Core, call: &Call, dataset: &Dataset, token: &Token) -> Result<v1::Token> {
    let (shared, view) = (&core.shared, &call.caller.view);
    let (theses, authors) = totals(shared, view, &token.id).await?;
    let day = shared.theses.counts(view, &token.id, call.now_ms, DAY_MS).await?;
    let last = shared.theses.latest(view, &token.id, call.now_ms, &day).await?.map(|(at, _)| at);
    Ok(convert::row::token(dataset, token, theses, authors, day.last_24h, last))
}

fn bucket(hour: &Hour) -> v1::TimelineBucket {
    v1::TimelineBucket {
        bucket_start: Some(from_millis(hour.start)),
        theses: hour.theses,
        unique_authors: hour.authors,
    }
}

/// Reads what happened on a token in the last 24 hours.
///
/// # Errors
/// `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, or when the store does not answer.
pub async fn activity(
    core: &Core,
    call: &Call,
    reference: &str,
    chain: Option<&str>,
    recent: usize,
) -> Result<v1::TokenActivity> {
    let (_, token) = found(core, call, reference, chain).await?;
    let (shared, view, at) = (&core.shared, &call.caller.view, call.now_ms);
    let day = shared.theses.counts(view, &token.id, at, DAY_MS).await?;
    Ok(v1::TokenActivity {
        token: Some(convert::row::token_ref(&token)),
        thesis_count_1h: day.last_1h,
        thesis_count_24h: day.last_24h,
        unique_authors_24h: day.authors_24h,
        last_activity_at: shared.theses.latest(view, &token.id, at, &day).await?.map(|(at, _)| from_millis(at)),
        timeline: day.timeline.iter().map(bucket).collect(),
        recent_theses: recent_theses(core, call, &token.id, recent).await?,
        livemode: view.livemode(),
        computed_at: Some(from_millis(at)),
    })
}

async fn recent_theses(core: &Core, call: &Call, token: &str, limit: usize) -> Result<Vec<v1::Thesis>> {
    let scopes = vec![IndexScope::Token(token.to_owned())];
    let slices = Slices { scopes, floor: call.history_floor(None)?, to: i64::MAX / 2, descending: true };
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let missing = limit - found.len();
        let rows = by_time(core, &call.caller.view, &slices, after, missing).await?;
        after = rows.last().map(|last| (last.created_at, last.id.clone()));
        let is_end = rows.len() < missing;
        let rows = rows.into_iter().map(|row| (row.dataset, row.id));
        found.extend(still_there(&core.shared.theses, rows).await?);
        if is_end || found.len() == limit {
            return Ok(with_references(&core.shared.theses, &found).await?);
        }
    }
}

/// Reads how fast theses on a token arrive.
///
/// # Errors
/// `TOKEN_NOT_FOUND`, `AMBIGUOUS_TOKEN`, or when the store does not answer.
pub async fn velocity(core: &Core, call: &Call, reference: &str, chain: Option<&str>) -> Result<v1::ThesisVelocity> {
    let (_, token) = found(core, call, reference, chain).await?;
    let (view, at) = (&call.caller.view, call.now_ms);
    let counts = core.shared.theses.counts(view, &token.id, at, 2 * HOUR_MS).await?;
    let velocity = crate::domain::entry::ThesisVelocity {
        token: Token::clone(&token),
        last_5m: counts.last_5m,
        last_1h: counts.last_1h,
        previous_1h: counts.previous_1h,
    };
    Ok(v1::ThesisVelocity {
        token: Some(convert::row::token_ref(&velocity.token)),
        last_5m: velocity.last_5m,
        last_1h: velocity.last_1h,
        previous_1h: velocity.previous_1h,
        change_pct: velocity.change_pct(),
        livemode: view.livemode(),
        computed_at: Some(from_millis(at)),
    })
}

#[cfg(test)]
mod tests;
