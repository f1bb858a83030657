//! The leases of webhook shards.

use bytes::Bytes;

use super::replace_row;
use crate::{
    key,
    store::{Consistency, SharedBackend, StoreResult, schema::SHARD_LEASE},
};

/// Leases a shard to a core until `until` if the shard is free or already the core's. Returns whether it was. Times are
/// in unix milliseconds. The row's body is the end and the owner.
pub async fn lease(backend: &SharedBackend, shard: i64, replica: &str, now_ms: i64, until: i64) -> StoreResult<bool> {
    let row = backend.get(&SHARD_LEASE, &key![shard], Consistency::Quorum).await?;
    if let Some(row) = &row {
        let text = String::from_utf8_lossy(&row.body);
        let (end, owner) = text.split_once(' ').unwrap_or_default();
        if owner != replica && end.parse::<i64>().is_ok_and(|end| end > now_ms) {
            return Ok(false);
        }
    }
    let body = Bytes::from(format!("{until} {replica}"));
    replace_row(backend, &SHARD_LEASE, key![shard], row.map(|row| row.version), body, None).await
}
