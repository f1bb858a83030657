//! Stored responses of requests with idempotency keys.

use prost::Message;

use super::read_message;
use crate::{
    key,
    store::{ConditionalWrite, Consistency, Expect, SharedBackend, StoreResult, Transaction, schema::IDEMPOTENCY},
};

#[derive(Clone, PartialEq, Eq, Message)]
pub struct StoredRequest {
    /// Hash of the operation and the decoded request. It is empty once the request was refused for a reason that may
    /// pass.
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

#[derive(Clone)]
pub struct IdempotencyKey {
    pub backend: SharedBackend,
    /// The project and the environment.
    pub scope: String,
    pub key: String,
}

impl IdempotencyKey {
    /// Reads the stored request, with its version. After this serial read, a write in doubt has happened, or never
    /// will.
    pub async fn read(&self) -> StoreResult<Option<(i64, StoredRequest)>> {
        let key = key![&self.scope, &self.key];
        read_message(&self.backend, &IDEMPOTENCY, &key, Consistency::Serial, "an idempotency key").await
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
        let partition = key![&self.scope, &self.key];
        self.backend.transact(Transaction { table: &IDEMPOTENCY, partition, writes: vec![write], ttl: seconds }).await
    }
}
