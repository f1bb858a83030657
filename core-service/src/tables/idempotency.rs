//! Answers kept for idempotency keys.

use prost::Message;

use crate::{
    key,
    store::{ConditionalWrite, Consistency, Expect, SharedBackend, StoreError, StoreResult, Transaction, schema},
};

/// The stored record of a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct KeptRequest {
    /// Hash of the operation and the decoded request.
    #[prost(bytes = "vec", tag = "1")]
    pub request: Vec<u8>,
    /// When the request started, in unix milliseconds.
    #[prost(int64, tag = "2")]
    pub started_at: i64,
    /// The encrypted answer, once there is one.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub answer: Option<Vec<u8>>,
    /// The things that the request creates are named after this.
    #[prost(string, tag = "4")]
    pub seed: String,
    /// Names the try that took the key last.
    #[prost(string, tag = "5")]
    pub holder: String,
}

/// An idempotency key of a project and environment.
#[derive(Clone)]
pub struct KeptKey {
    /// The store.
    pub backend: SharedBackend,
    /// The project and the environment.
    pub scope: String,
    /// The key as given.
    pub key: String,
}

impl KeptKey {
    /// The stored request, with its version. This read settles a write in doubt: it has happened, or never will.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn read(&self) -> StoreResult<Option<(i64, KeptRequest)>> {
        let key = key![&self.scope, &self.key];
        let Some(row) = self.backend.get(&schema::IDEMPOTENCY, &key, Consistency::Serial).await? else {
            return Ok(None);
        };
        let kept = KeptRequest::decode(row.body);
        let kept = kept.map_err(|error| StoreError::Damaged(format!("an idempotency key: {error}")))?;
        Ok(Some((row.version, kept)))
    }

    /// Stores a request for `seconds` if the row is as expected; tells whether it was.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn write(
        &self,
        kept: &KeptRequest,
        expect: Expect,
        version: i64,
        seconds: Option<u32>,
    ) -> StoreResult<bool> {
        let body = Some(kept.encode_to_vec().into());
        let write = ConditionalWrite { clustering: Vec::new(), expect, version, body };
        let transaction = Transaction {
            table: &schema::IDEMPOTENCY,
            partition: key![&self.scope, &self.key],
            writes: vec![write],
            ttl: seconds,
        };
        self.backend.transact(transaction).await
    }
}
