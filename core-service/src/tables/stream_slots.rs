//! The number of a project's open streams on each core. Each project has one row, which only conditional writes change.

use prost::Message as _;

use crate::{
    key,
    store::{ConditionalWrite, Consistency, Expect, SharedBackend, StoreError, StoreResult, Transaction, schema},
};

/// The body of a project's row.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ProjectStreams {
    /// The open streams of each core.
    #[prost(message, repeated, tag = "1")]
    pub cores: Vec<CoreStreams>,
}

/// A core's open streams.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct CoreStreams {
    /// The core.
    #[prost(string, tag = "1")]
    pub replica: String,
    /// Number of its open streams.
    #[prost(uint32, tag = "2")]
    pub open: u32,
}

/// Reads a project's row with its version. The version is none before the first write.
pub async fn read(
    backend: &SharedBackend,
    project: &str,
    consistency: Consistency,
) -> StoreResult<(Option<i64>, ProjectStreams)> {
    let row = backend.get(&schema::STREAM_SLOTS, &key![project], consistency).await?;
    let Some(row) = row else { return Ok((None, ProjectStreams::default())) };
    let streams =
        ProjectStreams::decode(row.body).map_err(|error| StoreError::Damaged(format!("stream slots: {error}")))?;
    Ok((Some(row.version), streams))
}

/// Restreams a project's row if it still has this version. Returns whether it had.
pub async fn replace(
    backend: &SharedBackend,
    project: &str,
    version: Option<i64>,
    streams: &ProjectStreams,
) -> StoreResult<bool> {
    let write = ConditionalWrite {
        clustering: Vec::new(),
        expect: version.map_or(Expect::Absent, Expect::Version),
        version: version.unwrap_or(0) + 1,
        body: Some(streams.encode_to_vec().into()),
    };
    let transaction =
        Transaction { table: &schema::STREAM_SLOTS, partition: key![project], writes: vec![write], ttl: None };
    backend.transact(transaction).await
}
