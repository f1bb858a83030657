//! Hints that a log has new entries or a webhook's queue new rows, in partitions of some seconds. A hint's version is the
//! last second in which it was left.

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
/// The beginning of the topics of queues; no dataset's name begins so.
const QUEUE: &str = "queue/";
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

/// Leaves hints that queues got rows that are due from a time on, in this second.
///
/// # Errors
/// When the store does not answer.
pub async fn leave_queue_hints(
    backend: &SharedBackend,
    queues: impl IntoIterator<Item = (String, i64)>,
    second: i64,
) -> StoreResult<()> {
    let change = |(webhook, due_at): (String, i64)| {
        let key = key![second.div_euclid(SECONDS), format!("{QUEUE}{webhook}/{due_at}")];
        Change { table: &schema::WAKE, key, version: second, body: Some(Bytes::new()), ttl: Some(KEPT) }
    };
    backend.apply(queues.into_iter().map(change).collect()).await
}

/// The topics with hints of these seconds.
async fn topics(backend: &SharedBackend, from: i64, to: i64) -> StoreResult<Vec<String>> {
    let mut topics = Vec::new();
    for bucket in from.div_euclid(SECONDS)..=to.div_euclid(SECONDS) {
        let rows = backend.scan(&Scan::all(&schema::WAKE, key![bucket], MOST_HINTS)).await?;
        let new = rows.iter().filter(|row| row.version >= from);
        topics.extend(new.filter_map(|row| Some(row.clustering.first()?.text().to_owned())));
    }
    Ok(topics)
}

/// The datasets with hints of these seconds, each once.
///
/// # Errors
/// When the store does not answer.
pub async fn hints(backend: &SharedBackend, from: i64, to: i64) -> StoreResult<Vec<Dataset>> {
    let topics = topics(backend, from, to).await?;
    let mut datasets: Vec<Dataset> = topics.iter().filter_map(|topic| Dataset::parse(topic)).collect();
    datasets.sort_unstable();
    datasets.dedup();
    Ok(datasets)
}

/// The webhooks whose queues have hints of these seconds, each with the due time from which on there are new rows.
///
/// # Errors
/// When the store does not answer.
pub async fn queue_hints(backend: &SharedBackend, from: i64, to: i64) -> StoreResult<Vec<(String, i64)>> {
    let topics = topics(backend, from, to).await?;
    let read = |topic: &String| {
        let (webhook, due_at) = topic.strip_prefix(QUEUE)?.rsplit_once('/')?;
        Some((webhook.to_owned(), due_at.parse().ok()?))
    };
    Ok(topics.iter().filter_map(read).collect())
}
