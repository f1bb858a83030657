//! The cores, a row each: its beat, and what other cores need to know of it.

use prost::Message as _;

use crate::{
    key,
    store::{Change, Scan, SharedBackend, StoreError, StoreResult, schema},
};

/// Seconds that the last beat of a core is kept.
pub const BEAT_KEPT: u32 = 3_600;
/// Most cores that beat within [`BEAT_KEPT`].
const MAX_CORES: usize = 10_000;
/// All cores are one partition.
const ALL: &str = "core";

/// What a core tells of itself.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Member {
    /// The gRPC URL at which other cores reach it; empty when they cannot.
    #[prost(string, tag = "1")]
    pub address: String,
    /// Whether it hands out attempts: it has workers, or shards that it still gives up.
    #[prost(bool, tag = "2")]
    pub hands_out: bool,
    /// Whether this was its last beat.
    #[prost(bool, tag = "3")]
    pub is_gone: bool,
}

/// The newest beat of a core.
#[derive(Debug)]
pub struct Beat {
    /// The core.
    pub replica: String,
    /// Grows with each beat, and with time.
    pub number: i64,
    /// The core as it then was.
    pub member: Member,
}

/// Writes a core's beat.
///
/// # Errors
/// Fails when the store does not answer.
pub async fn write_beat(backend: &SharedBackend, beat: &Beat) -> StoreResult<()> {
    let body = Some(beat.member.encode_to_vec().into());
    let (key, version) = (key![ALL, &beat.replica], beat.number);
    backend.apply(vec![Change { table: &schema::REPLICA_BEAT, key, version, body, ttl: Some(BEAT_KEPT) }]).await
}

/// The beats of every core.
///
/// # Errors
/// Fails when the store does not answer, or a row is damaged.
pub async fn beats(backend: &SharedBackend) -> StoreResult<Vec<Beat>> {
    let rows = backend.scan(&Scan::all(&schema::REPLICA_BEAT, key![ALL], MAX_CORES)).await?;
    let beats = rows.iter().filter_map(|row| {
        let replica = row.clustering.first()?.text().to_owned();
        let member = Member::decode(row.body.clone());
        let member = member.map_err(|error| StoreError::Damaged(format!("beat of {replica}: {error}")));
        Some(member.map(|member| Beat { replica, number: row.version, member }))
    });
    beats.collect()
}
