//! Stored responses of requests with idempotency keys.

use prost::Message;

use crate::{
    key,
    store::{ConditionalWrite, Consistency, Expect, SharedBackend, StoreError, StoreResult, Transaction, schema},
};

/// The stored record of a request.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct StoredRequest {
    /// Hash of the operation and the decoded request. It is empty once the request was refused for a reason that may pass.
    #[prost(bytes = "vec", tag = "1")]
    pub request: Vec<u8>,
    /// Start of the request, in unix milliseconds.
    #[prost(int64, tag = "2")]
    pub started_at: i64,
    /// The encrypted response, once the request has ended.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub answer: Option<Vec<u8>>,
    /// The ids of the objects that the request creates derive from this.
    #[prost(string, tag = "4")]
    pub seed: String,
    /// Id of the try that took the key last.
    #[prost(string, tag = "5")]
    pub holder: String,
}

/// An idempotency key of a project and environment.
#[derive(Clone)]
pub struct IdempotencyKey {
    /// The store.
    pub backend: SharedBackend,
    /// The project and the environment.
    pub scope: String,
    /// The key as given.
    pub key: String,
}

impl IdempotencyKey {
    /// Reads the stored request, with its version. After this serial read, a write in doubt has happened, or never
    /// will.
    pub async fn read(&self) -> StoreResult<Option<(i64, StoredRequest)>> {
        let key = key![&self.scope, &self.key];
        let Some(row) = self.backend.get(&schema::IDEMPOTENCY, &key, Consistency::Serial).await? else {
            return Ok(None);
        };
        let stored = StoredRequest::decode(row.body);
        let stored = stored.map_err(|error| StoreError::Damaged(format!("an idempotency key: {error}")))?;
        Ok(Some((row.version, stored)))
    }

    /// Stores a request for `seconds` if the row is as expected. Returns whether it was.
    pub async fn write(
        &self,
        stored: &StoredRequest,
        expect: Expect,
        version: i64,
        seconds: Option<u32>,
    ) -> StoreResult<bool> {
        let body = Some(stored.encode_to_vec().into());
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
