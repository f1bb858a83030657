//! The leases of webhook shards.

use bytes::Bytes;

use super::replace_row;
use crate::{
    key,
    store::{Consistency, SharedBackend, StoreResult, schema::SHARD_LEASE},
};

/// Leases a shard to a core until `until` if the shard is free or already the core's. Times are in unix milliseconds.
/// Returns the lease's epoch, which grows whenever the shard goes to another core; none if another core has it. The
/// row's body is the end, the owner and the epoch.
pub async fn lease(
    backend: &SharedBackend,
    shard: i64,
    replica: &str,
    now_ms: i64,
    until: i64,
) -> StoreResult<Option<i64>> {
    let row = backend.get(&SHARD_LEASE, &key![shard], Consistency::Quorum).await?;
    let mut epoch = 1;
    if let Some(row) = &row {
        let text = String::from_utf8_lossy(&row.body);
        let mut words = text.split(' ');
        let end: i64 = words.next().and_then(|end| end.parse().ok()).unwrap_or_default();
        let is_own = words.next() == Some(replica);
        let last: i64 = words.next().and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        if !is_own && end > now_ms {
            return Ok(None);
        }
        epoch = if is_own { last } else { last + 1 };
    }
    let body = Bytes::from(format!("{until} {replica} {epoch}"));
    let is_written = replace_row(backend, &SHARD_LEASE, key![shard], row.map(|row| row.version), body, None).await?;
    Ok(is_written.then_some(epoch))
}
