//! The members of the installation. Each core has one row: its heartbeat, and the data that other cores need.

use prost::Message as _;

use crate::{
    key,
    store::{Change, Scan, SharedBackend, StoreError, StoreResult, schema},
};

/// Retention time of a core's last heartbeat, in seconds.
pub const HEARTBEAT_RETENTION_SECONDS: u32 = 3_600;
/// Maximum number of cores with a heartbeat within [`HEARTBEAT_RETENTION_SECONDS`].
const MAX_CORES: usize = 10_000;
/// All cores are one partition.
const ALL: &str = "core";

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Member {
    /// The gRPC URL at which other cores reach it; empty when they cannot.
    #[prost(string, tag = "1")]
    pub address: String,
    /// True when the core hands out attempts: it has workers, or shards that it still gives up.
    #[prost(bool, tag = "2")]
    pub hands_out: bool,
    /// True when this was the core's last heartbeat.
    #[prost(bool, tag = "3")]
    pub is_gone: bool,
    /// The part of the search index that other cores may search; none for a core that searches for no other.
    #[prost(message, optional, tag = "4")]
    pub search: Option<SearchPart>,
}

/// The part of the search index that a core has.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct SearchPart {
    /// The version of the index.
    #[prost(uint32, tag = "1")]
    pub version: u32,
    /// The months of `live` that it has whole.
    #[prost(sint64, repeated, tag = "2")]
    pub months: Vec<i64>,
}

#[derive(Debug)]
pub struct Heartbeat {
    pub replica: String,
    /// Number of the heartbeat. It grows with each heartbeat, and with time.
    pub number: i64,
    pub member: Member,
}

pub async fn write_heartbeat(backend: &SharedBackend, beat: &Heartbeat) -> StoreResult<()> {
    let body = Some(beat.member.encode_to_vec().into());
    let (key, version) = (key![ALL, &beat.replica], beat.number);
    backend
        .apply(vec![Change {
            table: &schema::REPLICA_BEAT,
            key,
            version,
            body,
            ttl: Some(HEARTBEAT_RETENTION_SECONDS),
        }])
        .await
}

pub async fn read_heartbeats(backend: &SharedBackend) -> StoreResult<Vec<Heartbeat>> {
    let rows = backend.scan(&Scan::all(&schema::REPLICA_BEAT, key![ALL], MAX_CORES)).await?;
    let beats = rows.iter().filter_map(|row| {
        let replica = row.clustering.first()?.text().to_owned();
        let member = Member::decode(row.body.clone());
        let member = member.map_err(|error| StoreError::Damaged(format!("beat of {replica}: {error}")));
        Some(member.map(|member| Heartbeat { replica, number: row.version, member }))
    });
    beats.collect()
}
