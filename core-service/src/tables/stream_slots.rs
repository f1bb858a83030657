//! The places for streams that each core has leased of a project. Each project has one row, which only conditional
//! writes change.

use prost::Message as _;

use super::{read_message, replace_row};
use crate::{
    key,
    store::{Consistency, SharedBackend, StoreResult, schema::STREAM_SLOTS},
};

/// The body of a project's row.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProjectStreams {
    #[prost(message, repeated, tag = "1")]
    pub cores: Vec<CoreStreams>,
}

#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CoreStreams {
    #[prost(string, tag = "1")]
    pub replica: String,
    /// The places that the core may give to streams.
    #[prost(uint32, tag = "2")]
    pub places: u32,
    /// Number of places that may stay without a stream.
    #[prost(uint32, tag = "3")]
    pub share: u32,
}

/// Reads a project's row with its version. The version is none before the first write.
pub async fn read(
    backend: &SharedBackend,
    project: &str,
    consistency: Consistency,
) -> StoreResult<(Option<i64>, ProjectStreams)> {
    let row = read_message(backend, &STREAM_SLOTS, &key![project], consistency, "stream slots").await?;
    Ok(row.map_or((None, ProjectStreams::default()), |(version, streams)| (Some(version), streams)))
}

/// Replaces a project's row if it still has this version. Returns whether it had.
pub async fn replace(
    backend: &SharedBackend,
    project: &str,
    version: Option<i64>,
    streams: &ProjectStreams,
) -> StoreResult<bool> {
    replace_row(backend, &STREAM_SLOTS, key![project], version, streams.encode_to_vec().into(), None).await
}
