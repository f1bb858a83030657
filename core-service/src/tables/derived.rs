//! Derived events: which tokens owe them, and when they were last made.

use std::{collections::HashMap, ops::Bound};

use bytes::Bytes;

use crate::{
    domain::dataset::Dataset,
    key,
    store::{Change, Row, Scan, SharedBackend, StoreResult, schema},
};

/// Number of slots that tokens with owed events are spread over.
const SLOTS: i64 = 8;
/// Most tokens read of one slot.
const MOST_OWING: usize = 10_000;

/// The slot of a dataset's tokens with owed events.
fn slot_of(dataset: &str) -> i64 {
    dataset.bytes().fold(7, |sum, byte| (sum * 31 + i64::from(byte)) % SLOTS)
}

/// The change after which a token owes events.
#[must_use]
pub fn owes(dataset: &str, token: &str, version: i64) -> Change {
    let key = key![slot_of(dataset), dataset, token];
    Change { table: &schema::DERIVE_DUE, key, version, body: Some(Bytes::new()), ttl: None }
}

/// The changes after which a token owes no events: they were made at `at`, in unix milliseconds.
#[must_use]
pub fn were_made(dataset: &str, token: &str, at: i64, version: i64) -> [Change; 2] {
    let body = Some(Bytes::copy_from_slice(&at.to_be_bytes()));
    [
        Change { table: &schema::DERIVED, key: key![dataset, token], version, body, ttl: None },
        Change {
            table: &schema::DERIVE_DUE,
            key: key![slot_of(dataset), dataset, token],
            version,
            body: None,
            ttl: None,
        },
    ]
}

/// The tokens of a dataset that owe events, each with the sequence number of the entry that it owes them for.
///
/// # Errors
/// When the store does not answer.
pub async fn owing(backend: &SharedBackend, dataset: &str, limit: usize) -> StoreResult<Vec<(String, u64)>> {
    let mut scan = Scan::all(&schema::DERIVE_DUE, key![slot_of(dataset)], limit);
    scan.from = Bound::Included(key![dataset]);
    scan.to = Bound::Included(key![dataset]);
    let rows = backend.scan(&scan).await?;
    Ok(rows
        .iter()
        .filter_map(|row| Some((row.clustering.get(1)?.text().to_owned(), row.version.unsigned_abs())))
        .collect())
}

/// The datasets with tokens that owe events, each once.
///
/// # Errors
/// When the store does not answer.
pub async fn datasets_owing(backend: &SharedBackend) -> StoreResult<Vec<Dataset>> {
    let mut datasets = Vec::new();
    for slot in 0..SLOTS {
        let rows = backend.scan(&Scan::all(&schema::DERIVE_DUE, key![slot], MOST_OWING)).await?;
        datasets.extend(rows.iter().filter_map(|row| Dataset::parse(row.clustering.first()?.text())));
    }
    datasets.sort_unstable();
    datasets.dedup();
    Ok(datasets)
}

/// When the events of tokens were last made, in unix milliseconds; tokens without any are left out.
///
/// # Errors
/// When the store does not answer.
pub async fn last_made<'a>(
    backend: &SharedBackend,
    dataset: &str,
    tokens: impl IntoIterator<Item = &'a str>,
) -> StoreResult<HashMap<&'a str, i64>> {
    let tokens: Vec<&str> = tokens.into_iter().collect();
    let keys: Vec<_> = tokens.iter().map(|token| key![dataset, *token]).collect();
    let rows = backend.get_many(&schema::DERIVED, &keys).await?;
    let at = |row: Option<Row>| Some(i64::from_be_bytes(row?.body.as_ref().try_into().ok()?));
    Ok(tokens.into_iter().zip(rows).filter_map(|(token, row)| Some((token, at(row)?))).collect())
}
