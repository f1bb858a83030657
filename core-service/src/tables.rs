//! Typed repositories over the store, one file for each group of tables. Code above them names no table.

pub mod abuse;
pub mod account;
pub mod attempts;
pub mod audit;
pub mod control;
pub mod counts;
pub mod deliveries;
pub mod delivery_event;
pub mod derived;
pub mod events;
pub mod generation;
pub mod idempotency;
pub mod index_scope;
pub mod key_usage;
pub mod leases;
pub mod log;
pub mod members;
pub mod queue;
pub mod recent_theses;
mod row_cache;
pub mod stream_slots;
pub mod stream_tickets;
pub mod theses;
pub mod unfinished;
pub mod upstream;

/// Hashes a name to a shard from 0 up to, and without, the number of shards.
fn shard_of_name(name: &str, shards: i64) -> i64 {
    name.bytes().fold(7, |sum, byte| (sum * 31 + i64::from(byte)) % shards)
}
