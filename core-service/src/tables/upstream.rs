//! What is kept of the upstream beside its data: the place in its feed, when observations were last pushed, and the
//! answers to look-ups.

use prost::Message;

use crate::{
    key,
    store::{Change, Consistency, SharedBackend, StoreError, StoreResult, schema},
};

/// Seconds that the answer to a look-up is kept.
const KEPT: u32 = 7 * 86_400;

/// The place in the feed. Times are unix milliseconds.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct FeedPlace {
    /// Everything up to this position was taken in; none before the first.
    #[prost(string, optional, tag = "1")]
    pub position: Option<String>,
    /// Everything that the upstream changed until then was taken in, by the upstream's clock.
    #[prost(int64, tag = "2")]
    pub known_until: i64,
    /// What changed since then has to be looked up; none when nothing has.
    #[prost(int64, optional, tag = "3")]
    pub owed_since: Option<i64>,
    /// When something last came.
    #[prost(int64, tag = "4")]
    pub heard_at: i64,
    /// When the last frame came.
    #[prost(int64, optional, tag = "5")]
    pub last_frame_at: Option<i64>,
    /// Whether it is connected.
    #[prost(bool, tag = "6")]
    pub connected: bool,
}

/// The answer to a look-up.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct LookedUp {
    /// When it came, in unix milliseconds.
    #[prost(int64, tag = "1")]
    pub at: i64,
    /// Whether there was such a thing.
    #[prost(bool, tag = "2")]
    pub found: bool,
}

/// When observations were last pushed.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct Pushed {
    /// In unix milliseconds.
    #[prost(int64, tag = "1")]
    at: i64,
}

const FEED: &str = "feed";
const PUSHED: &str = "pushed";

fn name(thing: &str) -> String {
    format!("look-up {thing}")
}

async fn read<M: Message + Default>(backend: &SharedBackend, name: &str) -> StoreResult<Option<M>> {
    Ok(read_row(backend, name).await?.map(|(message, _)| message))
}

/// A row with its version.
async fn read_row<M: Message + Default>(backend: &SharedBackend, name: &str) -> StoreResult<Option<(M, i64)>> {
    let row = backend.get(&schema::UPSTREAM, &key![name], Consistency::Quorum).await?;
    let read = row.map(|row| Ok((M::decode(row.body)?, row.version))).transpose();
    read.map_err(|error: prost::DecodeError| StoreError::Damaged(format!("{name}: {error}")))
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

/// The place in the feed with its row's version; none before a first connection.
///
/// # Errors
/// When the store does not answer.
pub async fn place(backend: &SharedBackend) -> StoreResult<Option<(FeedPlace, i64)>> {
    read_row(backend, FEED).await
}

/// Keeps the place in the feed; a higher version wins.
///
/// # Errors
/// When the store does not answer.
pub async fn keep_place(backend: &SharedBackend, place: &FeedPlace, version: i64) -> StoreResult<()> {
    write(backend, FEED, version, place, None).await
}

/// When observations were last pushed, in unix milliseconds.
///
/// # Errors
/// When the store does not answer.
pub async fn pushed_at(backend: &SharedBackend) -> StoreResult<Option<i64>> {
    Ok(read::<Pushed>(backend, PUSHED).await?.map(|pushed| pushed.at))
}

/// Notes that observations were pushed.
///
/// # Errors
/// When the store does not answer.
pub async fn note_push(backend: &SharedBackend, now_ms: i64) -> StoreResult<()> {
    write(backend, PUSHED, now_ms, &Pushed { at: now_ms }, None).await
}

/// The last answer to a look-up.
///
/// # Errors
/// When the store does not answer.
pub async fn looked_up(backend: &SharedBackend, thing: &str) -> StoreResult<Option<LookedUp>> {
    read(backend, &name(thing)).await
}

/// Keeps the answer to a look-up.
///
/// # Errors
/// When the store does not answer.
pub async fn keep_look_up(backend: &SharedBackend, thing: &str, answer: LookedUp) -> StoreResult<()> {
    write(backend, &name(thing), answer.at, &answer, Some(KEPT)).await
}
