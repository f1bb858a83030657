//! The leases of webhook shards.

use bytes::Bytes;

use crate::{
    key,
    store::{ConditionalWrite, Consistency, Expect, SharedBackend, StoreResult, Transaction, schema},
};

/// Leases a shard to a core until `until` if the shard is free or already the core's. Returns whether it was. Times are
/// in unix milliseconds. The row's body is the end and the owner.
pub async fn lease(backend: &SharedBackend, shard: i64, replica: &str, now_ms: i64, until: i64) -> StoreResult<bool> {
    let row = backend.get(&schema::SHARD_LEASE, &key![shard], Consistency::Quorum).await?;
    let (expect, version) = match &row {
        None => (Expect::Absent, 1),
        Some(row) => {
            let text = String::from_utf8_lossy(&row.body);
            let (end, owner) = text.split_once(' ').unwrap_or_default();
            if owner != replica && end.parse::<i64>().is_ok_and(|end| end > now_ms) {
                return Ok(false);
            }
            (Expect::Version(row.version), row.version + 1)
        }
    };
    let body = Some(Bytes::from(format!("{until} {replica}")));
    let write = ConditionalWrite { clustering: Vec::new(), expect, version, body };
    let transaction =
        Transaction { table: &schema::SHARD_LEASE, partition: key![shard], writes: vec![write], ttl: None };
    backend.transact(transaction).await
}
