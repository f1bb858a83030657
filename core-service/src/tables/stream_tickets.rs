//! Tickets that open streams, the sessions in which such streams are open, and notifications of connections whose
//! stream moved to another core.

use std::sync::Arc;

use bytes::Bytes;
use prost::Message;

use super::{read_message, replace_row};
use crate::{
    key,
    store::{Change, Consistency, Scan, SharedBackend, StoreResult, schema},
};

/// Retention time of a ticket that no connection uses, in seconds. It is longer than a client may be away.
pub const UNUSED_RETENTION_SECONDS: u32 = 900;
/// Retention time of a ticket from an opening on, in seconds: five years, longer than any stream is open. Rows of cores
/// that died last so long. Cassandra before version 5 takes no time after January 2038.
pub const USED_RETENTION_SECONDS: u32 = 5 * 365 * 86_400;
/// Retention time of the note that a session is open, in seconds. It is longer than a client may be away.
pub const SESSION_RETENTION_SECONDS: u32 = 900;
/// The partition of sessions, beside that of the cores.
const SESSIONS: &str = "stream";
/// Retention time of the note that a connection was replaced, in seconds.
pub const MOVE_RETENTION_SECONDS: u32 = 600;
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
    /// The last time at which that connection was known to be open, in unix milliseconds: its opening, or its closing.
    #[prost(int64, tag = "4")]
    pub open_at: i64,
    /// True if that connection was closed.
    #[prost(bool, tag = "5")]
    pub is_closed: bool,
}

/// Reads a ticket by its hash, with its row's version.
pub async fn read(backend: &SharedBackend, hash: &str, consistency: Consistency) -> StoreResult<Option<(i64, Ticket)>> {
    read_message(backend, &schema::STREAM_TICKET, &key![hash], consistency, "stream ticket").await
}

/// Writes a ticket if its row still has this version, or is new. Returns whether it was written.
pub async fn write(backend: &SharedBackend, hash: &str, version: Option<i64>, ticket: &Ticket) -> StoreResult<bool> {
    let is_in_use = !ticket.connection.is_empty() && !ticket.is_closed;
    let ttl = if is_in_use { USED_RETENTION_SECONDS } else { UNUSED_RETENTION_SECONDS };
    let body = ticket.encode_to_vec().into();
    replace_row(backend, &schema::STREAM_TICKET, key![hash], version, body, Some(ttl)).await
}

/// Records that sessions are open at `now_ms`.
pub async fn write_open_sessions(backend: &SharedBackend, now_ms: i64, sessions: &[Arc<str>]) -> StoreResult<()> {
    let change = |session: &Arc<str>| Change {
        table: &schema::REPLICA_BEAT,
        key: key![SESSIONS, &**session],
        version: now_ms,
        body: Some(Bytes::new()),
        ttl: Some(SESSION_RETENTION_SECONDS),
    };
    if sessions.is_empty() { Ok(()) } else { backend.apply(sessions.iter().map(change).collect()).await }
}

/// The last time at which a session was known to be open, in unix milliseconds.
pub async fn session_open_at(backend: &SharedBackend, session: &str) -> StoreResult<Option<i64>> {
    let row = backend.get(&schema::REPLICA_BEAT, &key![SESSIONS, session], Consistency::Quorum).await?;
    Ok(row.map(|row| row.version))
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
