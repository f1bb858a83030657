//! The times at which tokens last got derived events.

use std::collections::HashMap;

use bytes::Bytes;

use crate::{
    key,
    store::{Change, Row, SharedBackend, StoreResult, schema},
};

/// The change that stores that a token got derived events at `at`, in unix milliseconds.
pub fn derived_at_change(dataset: &str, token: &str, at: i64, version: i64) -> Change {
    let body = Some(Bytes::copy_from_slice(&at.to_be_bytes()));
    Change { table: &schema::DERIVED, key: key![dataset, token], version, body, ttl: None }
}

/// Reads when tokens last got derived events, in unix milliseconds. The result omits tokens without derived events.
pub async fn last_derived_at<'a>(
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
