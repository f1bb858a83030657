//! State of the connection to the upstream: the position in its feed, the time of the last pushed observations, and the
//! results of lookups.

use prost::Message;

use super::read_message;
use crate::{
    key,
    store::{Change, Consistency, SharedBackend, StoreResult, schema},
};

/// Retention time of the result of a lookup, in seconds.
pub const LOOKUP_RETENTION_SECONDS: u32 = 7 * 86_400;

/// The state of following the feed. Times are unix milliseconds.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FeedState {
    /// All events up to this position are ingested; none before the first event.
    #[prost(string, optional, tag = "1")]
    pub position: Option<String>,
    /// All changes of the upstream until this time, by the upstream's clock, are ingested.
    #[prost(int64, tag = "2")]
    pub known_until: i64,
    /// A lookup of the changes since this time is pending; none when no lookup is pending.
    #[prost(int64, optional, tag = "3")]
    pub pending_since: Option<i64>,
    /// Time of the last data from the upstream.
    #[prost(int64, tag = "4")]
    pub received_at: i64,
    #[prost(int64, optional, tag = "5")]
    pub last_frame_at: Option<i64>,
    #[prost(bool, tag = "6")]
    pub connected: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LookupRecord {
    /// Time of the result, in unix milliseconds.
    #[prost(int64, tag = "1")]
    pub at: i64,
    /// True when the upstream had the object.
    #[prost(bool, tag = "2")]
    pub found: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Pushed {
    #[prost(int64, tag = "1")]
    at: i64,
}

const FEED: &str = "feed";
const PUSHED: &str = "pushed";

fn name(thing: &str) -> String {
    format!("look-up {thing}")
}

async fn read<M: Message + Default>(backend: &SharedBackend, name: &str) -> StoreResult<Option<(i64, M)>> {
    read_message(backend, &schema::UPSTREAM, &key![name], Consistency::Quorum, name).await
}

async fn write<M: Message>(
    backend: &SharedBackend,
    name: &str,
    version: i64,
    message: &M,
    ttl: Option<u32>,
) -> StoreResult<()> {
    let body = Some(message.encode_to_vec().into());
    backend.apply(vec![Change { table: &schema::UPSTREAM, key: key![name], version, body, ttl }]).await
}

/// Reads the state of the feed with its row's version; none before the first connection.
pub async fn read_feed_state(backend: &SharedBackend) -> StoreResult<Option<(i64, FeedState)>> {
    read(backend, FEED).await
}

/// Stores the state of the feed; a higher version wins.
pub async fn write_feed_state(backend: &SharedBackend, state: &FeedState, version: i64) -> StoreResult<()> {
    write(backend, FEED, version, state, None).await
}

/// Reads the time of the last pushed observations, in unix milliseconds.
pub async fn pushed_at(backend: &SharedBackend) -> StoreResult<Option<i64>> {
    Ok(read::<Pushed>(backend, PUSHED).await?.map(|(_, pushed)| pushed.at))
}

pub async fn note_push(backend: &SharedBackend, now_ms: i64) -> StoreResult<()> {
    write(backend, PUSHED, now_ms, &Pushed { at: now_ms }, None).await
}

pub async fn read_lookup(backend: &SharedBackend, thing: &str) -> StoreResult<Option<LookupRecord>> {
    Ok(read(backend, &name(thing)).await?.map(|(_, result)| result))
}

pub async fn write_lookup(backend: &SharedBackend, thing: &str, result: LookupRecord) -> StoreResult<()> {
    write(backend, &name(thing), result.at, &result, Some(LOOKUP_RETENTION_SECONDS)).await
}
