//! Hints that a log has new entries or a webhook's queue new rows, in partitions of some seconds. A hint's version is the
//! last second in which it was left.

use std::ops::Bound;

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
/// Most hints read at once.
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

/// A queue with new rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueueHint {
    /// The webhook.
    pub webhook: String,
    /// The earliest due time of the new rows, in unix milliseconds.
    pub due_at: i64,
    /// The call that left it: each is heard once.
    pub call: String,
}

/// The partition of the queues' hints of a second: hints of logs are never crowded out by them.
fn queue_bucket(second: i64) -> i64 {
    -1 - second.div_euclid(SECONDS)
}

/// Leaves hints that queues got rows, in this second.
///
/// # Errors
/// When the store does not answer.
pub async fn leave_queue_hints(backend: &SharedBackend, hints: Vec<QueueHint>, second: i64) -> StoreResult<()> {
    let change = |QueueHint { webhook, due_at, call }: QueueHint| {
        let key = key![queue_bucket(second), format!("{webhook}/{due_at}/{call}")];
        Change { table: &schema::WAKE, key, version: second, body: Some(Bytes::new()), ttl: Some(KEPT) }
    };
    backend.apply(hints.into_iter().map(change).collect()).await
}

/// The hints of queues of these seconds.
///
/// # Errors
/// When the store does not answer.
pub async fn queue_hints(backend: &SharedBackend, from: i64, to: i64) -> StoreResult<Vec<QueueHint>> {
    let mut hints = Vec::new();
    for bucket in queue_bucket(to)..=queue_bucket(from) {
        let mut scan = Scan::all(&schema::WAKE, key![bucket], MOST_HINTS);
        loop {
            let rows = backend.scan(&scan).await?;
            hints.extend(rows.iter().filter(|row| row.version >= from).filter_map(|row| {
                let mut parts = row.clustering.first()?.text().rsplitn(3, '/');
                let (call, due_at, webhook) = (parts.next()?, parts.next()?, parts.next()?);
                let (webhook, call) = (webhook.to_owned(), call.to_owned());
                Some(QueueHint { webhook, due_at: due_at.parse().ok()?, call })
            }));
            match rows.last() {
                Some(last) if rows.len() == MOST_HINTS => scan.from = Bound::Excluded(last.clustering.clone()),
                _ => break,
            }
        }
    }
    Ok(hints)
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
