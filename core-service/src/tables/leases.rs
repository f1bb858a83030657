//! The leases of webhook shards. All are one partition: a core reads, takes and gives up many by one request each.
//!
//! A lease says which core has a shard, and under which epoch. It needs no renewal: it lasts while the heartbeats of
//! that core arrive (`replicas/members.rs`), or until the core gives it up.

use std::collections::HashMap;

use prost::Message as _;

use super::decode_message;
use crate::{
    key,
    store::{ConditionalWrite, Expect, Scan, SharedBackend, StoreResult, Transaction, Value, schema::SHARD_LEASE},
};

/// The partition of all leases.
const ALL: &str = "webhooks";
/// Maximum number of leases. It is above the number of shards.
const MAX_LEASES: usize = 1_000;

/// The lease of a shard.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct ShardLease {
    /// The core that has the shard, or had it last.
    #[prost(string, tag = "1")]
    pub owner: String,
    /// It grows whenever the shard goes to another core.
    #[prost(int64, tag = "2")]
    pub epoch: i64,
    /// The time from which any core may take the shard, in unix milliseconds; none while its owner has it.
    #[prost(int64, optional, tag = "3")]
    pub free_at: Option<i64>,
}

/// A lease to write.
#[derive(Clone, Debug)]
pub struct LeaseWrite {
    pub shard: i64,
    /// The version of the row that it replaces; none if the shard has had no lease.
    pub before: Option<i64>,
    pub lease: ShardLease,
}

/// Reads the lease of each shard that ever had one, with the version of its row.
pub async fn read_all(backend: &SharedBackend) -> StoreResult<HashMap<i64, (i64, ShardLease)>> {
    let rows = backend.scan(&Scan::all(&SHARD_LEASE, key![ALL], MAX_LEASES)).await?;
    let mut leases = HashMap::new();
    for row in rows {
        let shard = row.clustering.first().map_or(0, Value::int);
        leases.insert(shard, (row.version, decode_message(row.body, "shard lease")?));
    }
    Ok(leases)
}

/// Writes leases, all or none. Returns false if another core has changed one of them.
pub async fn write(backend: &SharedBackend, leases: Vec<LeaseWrite>) -> StoreResult<bool> {
    let writes = leases.into_iter().map(|LeaseWrite { shard, before, lease }| ConditionalWrite {
        clustering: key![shard],
        expect: before.map_or(Expect::Absent, Expect::Version),
        version: before.unwrap_or(0) + 1,
        body: Some(lease.encode_to_vec().into()),
    });
    let (table, partition, writes) = (&SHARD_LEASE, key![ALL], writes.collect());
    backend.transact(Transaction { table, partition, writes, ttl: None }).await
}
