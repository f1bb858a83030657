//! Does a request once per idempotency key: a repeat gets the first answer.
//!
//! What a request creates is named after a seed that is kept with its key, so that a repetition after a crash completes
//! the first try instead of doing it twice, and a key used again after its time makes something new.

use prost::Message;
use sha2::{Digest as _, Sha256};
use thesis_proto::{
    clock::SharedIdSource,
    error::{ApiError, ErrorCode},
};
use tonic::{Code, Status};

use super::{
    error::{Error, Result},
    gate::Call,
    secrets::KeyRing,
};
use crate::{
    domain::operation::Operation,
    key,
    store::{ConditionalWrite, Consistency, Expect, SharedBackend, Transaction, tables},
};

/// Answers are kept for so long.
const KEPT_MS: i64 = 24 * 3_600_000;
/// A request in flight keeps its repeats away for so long; then its server counts as dead.
const IN_FLIGHT_MS: i64 = 30_000;

/// What is stored of a request.
#[derive(Clone, PartialEq, Eq, Message)]
struct Kept {
    /// Hash of the operation and the decoded request.
    #[prost(bytes = "vec", tag = "1")]
    request: Vec<u8>,
    /// Unix milliseconds of its start.
    #[prost(int64, tag = "2")]
    started_at: i64,
    /// The encrypted answer, once there is one.
    #[prost(bytes = "vec", optional, tag = "3")]
    answer: Option<Vec<u8>>,
    /// What the request creates is named after this.
    #[prost(string, tag = "4")]
    seed: String,
}

/// An answer as it is kept.
#[derive(Clone, PartialEq, Eq, Message)]
struct Answer {
    /// The message, when it succeeded.
    #[prost(bytes = "vec", optional, tag = "1")]
    message: Option<Vec<u8>>,
    /// gRPC code, message and details, when it failed.
    #[prost(int32, tag = "2")]
    code: i32,
    #[prost(string, tag = "3")]
    text: String,
    #[prost(bytes = "vec", tag = "4")]
    details: Vec<u8>,
}

/// Keeps answers.
pub struct Idempotency {
    backend: SharedBackend,
    keys: KeyRing,
    ids: SharedIdSource,
}

impl Idempotency {
    /// Keeps answers in this backend.
    #[must_use]
    pub fn new(backend: SharedBackend, keys: KeyRing, ids: SharedIdSource) -> Self {
        Self { backend, keys, ids }
    }

    /// Performs a request that has passed all checks, once per idempotency key; without one, simply performs it.
    ///
    /// # Errors
    /// What the request answers, `IDEMPOTENCY_KEY_REUSED`, `IDEMPOTENCY_IN_PROGRESS`, or when the store does not answer.
    pub async fn once<M: Message, T: Message + Default>(
        &self,
        call: &Call,
        operation: Operation,
        message: &M,
        perform: impl AsyncFnOnce(&str) -> Result<T>,
    ) -> Result<T> {
        let fresh_seed = crate::domain::id::random("seed_", self.ids.as_ref());
        let Some(idempotency_key) = call.meta.idempotency_key.as_deref() else {
            return perform(&fresh_seed).await;
        };
        let partition = key![call.caller.scope(), idempotency_key];
        let mut hasher = Sha256::new();
        hasher.update(operation.name());
        hasher.update(message.encode_to_vec());
        let mut kept =
            Kept { request: hasher.finalize().to_vec(), started_at: call.now_ms, answer: None, seed: fresh_seed };

        let before = self.backend.get(&tables::IDEMPOTENCY, &partition, Consistency::Serial).await?;
        let mut expect = Expect::Absent;
        let mut version = 1;
        if let Some(row) = before {
            let known = Kept::decode(row.body).map_err(Error::internal)?;
            expect = Expect::Version(row.version);
            version = row.version + 1;
            if call.now_ms - known.started_at < KEPT_MS {
                if known.request != kept.request {
                    let text = "this idempotency key was used for another request";
                    return Err(Error::new(ErrorCode::IdempotencyKeyReused, text));
                }
                if let Some(sealed) = known.answer {
                    *call.replayed.lock() = true;
                    return self.replay(&sealed);
                }
                if call.now_ms - known.started_at < IN_FLIGHT_MS {
                    return Err(in_progress());
                }
                kept.seed = known.seed;
            }
        }
        match self.write(&partition, expect, version, &kept).await {
            Ok(true) => {}
            Ok(false) => return Err(in_progress()),
            // In doubt; what was written all the same must not keep this very client away.
            Err(error) => {
                let row = self.backend.get(&tables::IDEMPOTENCY, &partition, Consistency::Serial).await?;
                if row.is_none_or(|row| row.body != kept.encode_to_vec()) {
                    return Err(error);
                }
            }
        }
        let result = perform(&kept.seed).await;
        let answer = match &result {
            Ok(message) => Some(Answer { message: Some(message.encode_to_vec()), ..Answer::default() }),
            Err(error) if error.api.code.http_status() < 500 => {
                let status = error.api.to_status("");
                Some(Answer {
                    message: None,
                    code: status.code().into(),
                    text: status.message().to_owned(),
                    details: status.details().to_vec(),
                })
            }
            // Never keep a 5xx: the next try shall have its chance at once.
            Err(_) => None,
        };
        match answer {
            Some(answer) => kept.answer = Some(self.keys.seal(&answer.encode_to_vec())),
            None => kept.started_at -= IN_FLIGHT_MS,
        }
        if let Err(error) = self.write(&partition, Expect::Version(version), version + 1, &kept).await {
            tracing::warn!(%error, "keeping an answer for its idempotency key failed");
        }
        result
    }

    fn replay<T: Message + Default>(&self, sealed: &[u8]) -> Result<T> {
        let plain = self.keys.open(sealed).ok_or_else(|| Error::internal("a kept answer cannot be decrypted"))?;
        let answer = Answer::decode(plain.as_slice()).map_err(Error::internal)?;
        match answer.message {
            Some(message) => T::decode(message.as_slice()).map_err(Error::internal),
            None => {
                let status = Status::with_details(Code::from(answer.code), answer.text, answer.details.into());
                Err(ApiError::from_status(&status).into())
            }
        }
    }

    async fn write(
        &self,
        partition: &[crate::store::Value],
        expect: Expect,
        version: i64,
        kept: &Kept,
    ) -> Result<bool> {
        let body = Some(kept.encode_to_vec().into());
        let write = ConditionalWrite { clustering: Vec::new(), expect, version, body };
        let transaction = Transaction {
            table: &tables::IDEMPOTENCY,
            partition: partition.to_vec(),
            writes: vec![write],
            ttl: u32::try_from(2 * KEPT_MS / 1_000).ok(),
        };
        Ok(self.backend.transact(transaction).await?)
    }
}

fn in_progress() -> Error {
    ApiError::new(ErrorCode::IdempotencyInProgress, "a request with this idempotency key is being answered")
        .with_retry_after(1)
        .into()
}
