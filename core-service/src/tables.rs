//! Typed repositories over the store, one file for each group of tables. Code above them names no table.

pub mod abuse;
pub mod account;
pub mod alerts;
pub mod archive_files;
mod attempt_counts;
pub mod attempts;
pub mod audit;
pub mod audit_chain;
pub mod control;
pub mod counts;
pub mod deliveries;
pub mod delivery_buckets;
pub mod delivery_rows;
pub mod event_positions;
pub mod events;
pub mod failed_responses;
pub mod generation;
pub mod idempotency;
pub mod index_scope;
pub mod key_usage;
pub mod leases;
pub mod log;
pub mod members;
mod partition_cache;
pub mod queue;
mod queue_parts;
pub mod recent_theses;
pub mod rendered;
pub mod request_log;
mod row_cache;
pub mod signed_trees;
pub mod stream_slots;
pub mod stream_tickets;
pub mod theses;
pub mod tree_tiles;
pub mod unfinished;
pub mod upstream;
pub mod webhook_replays;

use bytes::Bytes;
use prost::Message;

use crate::store::{
    ConditionalWrite, Consistency, Expect, SharedBackend, StoreError, StoreResult, Table, Transaction, Value,
};

/// Hashes a name to a shard from 0 up to, and without, the number of shards.
fn shard_of_name(name: &str, shards: i64) -> i64 {
    name.bytes().fold(7, |sum, byte| (sum * 31 + i64::from(byte)) % shards)
}

/// Decodes a stored message. `what` names the row in the error.
fn decode_message<M: Message + Default>(body: Bytes, what: &str) -> StoreResult<M> {
    M::decode(body).map_err(|error| StoreError::Damaged(format!("{what}: {error}")))
}

/// Reads a message, with the version of its row.
async fn read_message<M: Message + Default>(
    backend: &SharedBackend,
    table: &'static Table,
    key: &[Value],
    consistency: Consistency,
    what: &str,
) -> StoreResult<Option<(i64, M)>> {
    let row = backend.get(table, key, consistency).await?;
    row.map(|row| Ok((row.version, decode_message(row.body, what)?))).transpose()
}

/// Replaces the only row of a partition if it still has this version, or is new. Returns whether it was written.
async fn replace_row(
    backend: &SharedBackend,
    table: &'static Table,
    partition: Vec<Value>,
    before: Option<i64>,
    body: Bytes,
    ttl: Option<u32>,
) -> StoreResult<bool> {
    let (expect, version) = (before.map_or(Expect::Absent, Expect::Version), before.unwrap_or(0) + 1);
    let write = ConditionalWrite { clustering: Vec::new(), expect, version, body: Some(body) };
    backend.transact(Transaction { table, partition, writes: vec![write], ttl }).await
}
