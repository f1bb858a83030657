//! The times of recent attempts at limited actions, such as sign-ins.

use prost::Message;

use crate::{
    key,
    store::{
        ConditionalWrite, Consistency, Expect, SharedBackend, StoreError, StoreResult, Transaction, schema::ATTEMPTS,
    },
};

#[derive(Clone, PartialEq, Eq, Message)]
pub struct Attempts {
    /// Times in unix milliseconds, oldest first.
    #[prost(int64, repeated, tag = "1")]
    pub times: Vec<i64>,
}

/// Reads the attempts of a subject, with their row's version.
pub async fn read(
    backend: &SharedBackend,
    subject: &str,
    consistency: Consistency,
) -> StoreResult<Option<(i64, Attempts)>> {
    let Some(row) = backend.get(&ATTEMPTS, &key![subject], consistency).await? else { return Ok(None) };
    let attempts = Attempts::decode(row.body).map_err(|error| StoreError::Damaged(format!("attempts: {error}")))?;
    Ok(Some((row.version, attempts)))
}

/// Writes the attempts of a subject for `seconds` if the row still has this version, or is new. Returns whether it was
/// written.
pub async fn write(
    backend: &SharedBackend,
    subject: &str,
    version: Option<i64>,
    attempts: &Attempts,
    seconds: Option<u32>,
) -> StoreResult<bool> {
    let write = ConditionalWrite {
        clustering: Vec::new(),
        expect: version.map_or(Expect::Absent, Expect::Version),
        version: version.unwrap_or(0) + 1,
        body: Some(attempts.encode_to_vec().into()),
    };
    let transaction = Transaction { table: &ATTEMPTS, partition: key![subject], writes: vec![write], ttl: seconds };
    backend.transact(transaction).await
}
