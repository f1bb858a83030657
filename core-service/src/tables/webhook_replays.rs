//! Replays of many deliveries, by shard of the webhook. The core that steps on with a replay writes under the condition
//! that nobody else did.

use std::ops::Bound;

use bytes::Bytes;
use prost::Message as _;

use super::{decode_message, delivery_rows::RETENTION_SECONDS, queue::shard_of};
use crate::{
    domain::webhook_replay::WebhookReplay,
    key,
    store::{
        ConditionalWrite, Consistency, Expect, Scan, SharedBackend, StoreResult, Transaction, Value,
        schema::WEBHOOK_REPLAY,
    },
};

/// Number of rows in one read.
const PAGE: usize = 1_000;

/// A replay with the version of its row.
pub type StoredReplay = (i64, WebhookReplay);

/// Reads the last replay of a webhook, with the version of its row. A damaged row has no replay, and another replay may
/// take its place.
pub async fn read(
    backend: &SharedBackend,
    webhook: &str,
    consistency: Consistency,
) -> StoreResult<Option<(i64, Option<WebhookReplay>)>> {
    let row = backend.get(&WEBHOOK_REPLAY, &key![shard_of(webhook), webhook], consistency).await?;
    Ok(row.map(|row| (row.version, decode(row.body, webhook))))
}

/// Decodes the replay of a row; none if it is damaged.
fn decode(body: Bytes, webhook: &str) -> Option<WebhookReplay> {
    decode_message(body, "webhook replay")
        .inspect_err(|error| tracing::error!(webhook, %error, "a replay cannot be read and does not go on"))
        .ok()
}

/// Reads the replays of shards that are not done, each with its webhook, in the order of the shards. A damaged row
/// holds up no other.
pub async fn unfinished(backend: &SharedBackend, shards: &[i64]) -> StoreResult<Vec<Vec<(String, StoredReplay)>>> {
    let scans: Vec<Scan> = shards.iter().map(|shard| Scan::all(&WEBHOOK_REPLAY, key![*shard], PAGE)).collect();
    let first_pages = backend.scan_many(&scans).await?;
    let mut found = Vec::with_capacity(shards.len());
    for (mut scan, mut rows) in scans.into_iter().zip(first_pages) {
        let mut of_shard = Vec::new();
        loop {
            for row in &rows {
                let Some(webhook) = row.clustering.first().map(Value::text) else { continue };
                let replay = decode(row.body.clone(), webhook);
                if let Some(replay) = replay.filter(|replay| replay.finished_at.is_none()) {
                    of_shard.push((webhook.to_owned(), (row.version, replay)));
                }
            }
            match rows.last() {
                Some(last) if rows.len() == PAGE => scan.from = Bound::Excluded(last.clustering.clone()),
                _ => break,
            }
            rows = backend.scan(&scan).await?;
        }
        found.push(of_shard);
    }
    Ok(found)
}

/// Stores a replay if its row still has this version, or is new. Returns the new version; none if it has another one.
pub async fn write(
    backend: &SharedBackend,
    webhook: &str,
    before: Option<i64>,
    replay: &WebhookReplay,
) -> StoreResult<Option<i64>> {
    let (expect, version) = (before.map_or(Expect::Absent, Expect::Version), before.unwrap_or(0) + 1);
    let write =
        ConditionalWrite { clustering: key![webhook], expect, version, body: Some(replay.encode_to_vec().into()) };
    let transaction = Transaction {
        table: &WEBHOOK_REPLAY,
        partition: key![shard_of(webhook)],
        writes: vec![write],
        ttl: Some(RETENTION_SECONDS),
    };
    Ok(backend.transact(transaction).await?.then_some(version))
}
