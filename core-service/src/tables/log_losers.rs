//! Writers of a log that lost a race to another.

use bytes::Bytes;

use crate::{
    key,
    store::{Change, Scan, SharedBackend, StoreResult, schema},
};

/// Seconds for which a writer's loss is kept.
const KEPT: u32 = 10;
/// Most writers looked for: every core has one.
const MOST_WRITERS: usize = 100;

/// Tells at which head a writer lost. No head means that it no longer wants a turn. `version` grows with each call.
///
/// # Errors
/// When the store does not answer.
pub async fn tell(
    backend: &SharedBackend,
    log: &str,
    writer: &str,
    head: Option<u64>,
    version: i64,
) -> StoreResult<()> {
    let body = head.map(|head| Bytes::copy_from_slice(&head.to_be_bytes()));
    let change = Change { table: &schema::LOG_LOSER, key: key![log, writer], version, body, ttl: Some(KEPT) };
    backend.apply(vec![change]).await
}

/// The writers that lost, each with the head at which it lost.
///
/// # Errors
/// When the store does not answer.
pub async fn losers(backend: &SharedBackend, log: &str) -> StoreResult<Vec<(String, u64)>> {
    let rows = backend.scan(&Scan::all(&schema::LOG_LOSER, key![log], MOST_WRITERS)).await?;
    let losers = rows.iter().filter_map(|row| {
        let head = row.body.as_ref().try_into().map_or(0, u64::from_be_bytes);
        Some((row.clustering.first()?.text().to_owned(), head))
    });
    Ok(losers.collect())
}
