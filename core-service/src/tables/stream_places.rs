//! How many of a project's streams each core has open: one row for each project, changed by conditional writes only.

use prost::Message as _;

use crate::{
    key,
    store::{ConditionalWrite, Consistency, Expect, SharedBackend, StoreError, StoreResult, Transaction, schema},
};

/// The body of a project's row.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Places {
    /// The cores with open streams.
    #[prost(message, repeated, tag = "1")]
    pub held: Vec<Held>,
}

/// A core's open streams.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Held {
    /// The core.
    #[prost(string, tag = "1")]
    pub replica: String,
    /// How many it has open.
    #[prost(uint32, tag = "2")]
    pub open: u32,
}

/// A project's row with its version; a row that was never written has none.
///
/// # Errors
/// Fails when the store does not answer.
pub async fn read(
    backend: &SharedBackend,
    project: &str,
    consistency: Consistency,
) -> StoreResult<(Option<i64>, Places)> {
    let row = backend.get(&schema::STREAM_SLOTS, &key![project], consistency).await?;
    let Some(row) = row else { return Ok((None, Places::default())) };
    let places = Places::decode(row.body).map_err(|error| StoreError::Damaged(format!("stream slots: {error}")))?;
    Ok((Some(row.version), places))
}

/// Replaces a project's row if it still has this version; tells whether it had.
///
/// # Errors
/// Fails when the store does not answer.
pub async fn replace(
    backend: &SharedBackend,
    project: &str,
    version: Option<i64>,
    places: &Places,
) -> StoreResult<bool> {
    let write = ConditionalWrite {
        clustering: Vec::new(),
        expect: version.map_or(Expect::Absent, Expect::Version),
        version: version.unwrap_or(0) + 1,
        body: Some(places.encode_to_vec().into()),
    };
    let transaction =
        Transaction { table: &schema::STREAM_SLOTS, partition: key![project], writes: vec![write], ttl: None };
    backend.transact(transaction).await
}
