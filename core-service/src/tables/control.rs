//! The state of the control log as rows. A core loads them when it starts.

use std::ops::Bound;

use bytes::Bytes;
use prost::Message as _;

use crate::{
    domain::control::{ControlChange, ControlEntry},
    key,
    store::{Change, Scan, SharedBackend, StoreError, StoreResult, schema},
};

/// Number of partitions of one kind of rows.
const SHARDS: i64 = 16;
/// Most rows read at once.
const PAGE: usize = 1_000;

const KINDS: [&str; 5] = ["organization", "project", "key", "webhook", "seed"];

fn shard_of(id: &str) -> i64 {
    id.bytes().fold(0, |sum, byte| (sum * 31 + i64::from(byte)) % SHARDS)
}

/// The kind of a change's row, its id, and whether the row stays.
fn row_of(change: &ControlChange) -> (&'static str, &str, bool) {
    match change {
        ControlChange::Organization(row) => ("organization", &row.id, true),
        ControlChange::Project(row) => ("project", &row.id, true),
        ControlChange::ApiKey(row) => ("key", &row.id, true),
        ControlChange::Webhook(row) => ("webhook", &row.id, true),
        ControlChange::WebhookDeleted(id) => ("webhook", id, false),
        ControlChange::SandboxSeed(_) => ("seed", "sandbox", true),
    }
}

/// Reads an entry of the control log.
///
/// # Errors
/// When it is damaged, or of a kind that only a newer version knows: passed over, a revoked key would go on to work.
pub fn decode(body: Bytes) -> StoreResult<ControlChange> {
    let entry = ControlEntry::decode(body).map_err(|error| StoreError::Damaged(format!("control log: {error}")))?;
    entry.change.ok_or_else(|| StoreError::Unknown("the kind of a control change".to_owned()))
}

/// Reads every row.
///
/// # Errors
/// When the store does not answer.
pub async fn load(backend: &SharedBackend, mut take: impl FnMut(ControlChange)) -> StoreResult<()> {
    for (kind, shard) in KINDS.iter().flat_map(|kind| (0..SHARDS).map(move |shard| (kind, shard))) {
        let mut scan = Scan::all(&schema::CONTROL, key![*kind, shard], PAGE);
        loop {
            let rows = backend.scan(&scan).await?;
            let Some(last) = rows.last() else { break };
            scan.from = Bound::Excluded(last.clustering.clone());
            let full = rows.len() == PAGE;
            for row in rows {
                take(decode(row.body)?);
            }
            if !full {
                break;
            }
        }
    }
    Ok(())
}

/// The row of an entry of the control log.
///
/// # Errors
/// When the entry is damaged.
pub fn entry_change(seq: u64, body: Bytes) -> StoreResult<Change> {
    let change = decode(body.clone())?;
    let (kind, id, stays) = row_of(&change);
    Ok(Change {
        table: &schema::CONTROL,
        key: key![kind, shard_of(id), id],
        version: i64::try_from(seq).unwrap_or(i64::MAX),
        body: stays.then_some(body),
        ttl: None,
    })
}
