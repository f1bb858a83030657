//! Tickets that open streams, and notifications of connections whose stream moved to another core.

use bytes::Bytes;
use prost::Message;

use super::{read_message, replace_row};
use crate::{
    key,
    store::{Change, Consistency, Scan, SharedBackend, StoreResult, schema},
};

/// Retention time of a ticket's row after its last write, in seconds. It is longer than any use of the ticket.
const TICKET_RETENTION_SECONDS: u32 = 900;
const MOVE_RETENTION_SECONDS: u32 = 600;
/// Length of a partition of moves, in seconds.
const BUCKET_SECONDS: i64 = 8;
/// Maximum number of moves in a partition.
const MAX_MOVES: usize = 100_000;

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Ticket {
    /// The key whose rights it carries.
    #[prost(string, tag = "1")]
    pub key_id: String,
    #[prost(int64, tag = "2")]
    pub created_at: i64,
    /// The connection that uses the ticket; empty before the first use.
    #[prost(string, tag = "3")]
    pub connection: String,
    /// The last time at which that connection was known to be open, in unix milliseconds.
    #[prost(int64, tag = "4")]
    pub open_at: i64,
}

/// Reads a ticket by its hash, with its row's version.
pub async fn read(backend: &SharedBackend, hash: &str, consistency: Consistency) -> StoreResult<Option<(i64, Ticket)>> {
    read_message(backend, &schema::STREAM_TICKET, &key![hash], consistency, "stream ticket").await
}

/// Writes a ticket if its row still has this version, or is new. Returns whether it was written.
pub async fn write(backend: &SharedBackend, hash: &str, version: Option<i64>, ticket: &Ticket) -> StoreResult<bool> {
    let (body, ttl) = (ticket.encode_to_vec().into(), Some(TICKET_RETENTION_SECONDS));
    replace_row(backend, &schema::STREAM_TICKET, key![hash], version, body, ttl).await
}

/// Notifies the other cores that a connection was replaced at `now_ms`.
pub async fn publish_replaced(backend: &SharedBackend, now_ms: i64, connection: &str) -> StoreResult<()> {
    let bucket = now_ms.div_euclid(BUCKET_SECONDS * 1_000);
    let (table, key) = (&schema::TICKET_MOVE, key![bucket, connection]);
    let change = Change { table, key, version: now_ms, body: Some(Bytes::new()), ttl: Some(MOVE_RETENTION_SECONDS) };
    backend.apply(vec![change]).await
}

/// Reads the connections that were replaced in these seconds, counted from 1970.
pub async fn replaced(backend: &SharedBackend, from: i64, to: i64) -> StoreResult<Vec<String>> {
    let mut connections = Vec::new();
    for bucket in from.div_euclid(BUCKET_SECONDS)..=to.div_euclid(BUCKET_SECONDS) {
        let rows = backend.scan(&Scan::all(&schema::TICKET_MOVE, key![bucket], MAX_MOVES)).await?;
        let new = rows.iter().filter(|row| row.version >= from * 1_000);
        connections.extend(new.filter_map(|row| Some(row.clustering.first()?.text().to_owned())));
    }
    Ok(connections)
}
