//! Hints that a log has new entries, in partitions of some seconds. A hint's version is the last second with an append.

use bytes::Bytes;

use crate::{
    domain::dataset::Dataset,
    key,
    store::{Change, Scan, SharedBackend, StoreResult, schema},
};

/// Seconds for which a hint is kept.
const KEPT: u32 = 3_600;
/// Number of seconds whose hints share one partition.
const SECONDS: i64 = 8;
/// Most hints of a partition.
const MOST_HINTS: usize = 10_000;

/// Leaves a hint that a dataset's log gets entries in this second.
///
/// # Errors
/// When the store does not answer.
pub async fn leave_hint(backend: &SharedBackend, dataset: &str, second: i64) -> StoreResult<()> {
    let key = key![second.div_euclid(SECONDS), dataset];
    let change = Change { table: &schema::WAKE, key, version: second, body: Some(Bytes::new()), ttl: Some(KEPT) };
    backend.apply(vec![change]).await
}

/// The datasets with hints of these seconds, each once.
///
/// # Errors
/// When the store does not answer.
pub async fn hints(backend: &SharedBackend, from: i64, to: i64) -> StoreResult<Vec<Dataset>> {
    let mut datasets = Vec::new();
    for bucket in from.div_euclid(SECONDS)..=to.div_euclid(SECONDS) {
        let rows = backend.scan(&Scan::all(&schema::WAKE, key![bucket], MOST_HINTS)).await?;
        let new = rows.iter().filter(|row| row.version >= from);
        datasets.extend(new.filter_map(|row| Dataset::parse(row.clustering.first()?.text())));
    }
    datasets.sort_unstable();
    datasets.dedup();
    Ok(datasets)
}
