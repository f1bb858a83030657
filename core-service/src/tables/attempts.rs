//! The times of recent attempts at limited actions, such as sign-ins.

use prost::Message;

use super::{read_message, replace_row};
use crate::{
    key,
    store::{Consistency, SharedBackend, StoreResult, schema::ATTEMPTS},
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
    read_message(backend, &ATTEMPTS, &key![subject], consistency, "attempts").await
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
    replace_row(backend, &ATTEMPTS, key![subject], version, attempts.encode_to_vec().into(), seconds).await
}
