//! Performs a request once per idempotency key: a repeat gets the first response.
//!
//! The names of created objects derive from a seed that is kept with the key. So a repeat after a crash completes the
//! first try instead of a second one, and a key used again after its time creates a new object.

use std::{sync::Arc, time::Duration};

use prost::Message;
use sha2::{Digest as _, Sha256};
use thesis_net::{clock::SharedIdSource, guard::Refusal};
use thesis_proto::error::{ApiError, ErrorCode};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use tonic::{Code, Status};

use super::gate::Call;
use crate::{
    error::{Error, Result},
    keys::key_ring::{KeyRing, SealPurpose},
    store::{Expect, SharedBackend, StoreResult},
    tables::idempotency::{IdempotencyKey, StoredRequest},
};

/// Time for which a response is kept, in milliseconds.
pub const KEPT_MS: i64 = 24 * 3_600_000;
/// Time for which a request in flight blocks its repeats, in milliseconds. Later its core counts as dead.
const IN_FLIGHT_MS: i64 = 30_000;
/// Time limit of the tries to give a key back. Later, repeats may take the key anyway.
const GIVE_BACK_TIMEOUT: Duration = Duration::from_millis(IN_FLIGHT_MS.unsigned_abs());
/// Maximum number of tries to take a key while the store is in doubt or others take it.
const MAX_TRIES: usize = 4;
/// Time for which a failed request waits until its key is given back. The tries continue after it.
const GIVE_BACK_WAIT: Duration = Duration::from_millis(500);
/// Pause between two tries to give a key back.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

/// A response as it is stored.
#[derive(Clone, PartialEq, Eq, Message)]
struct KeptAnswer {
    #[prost(bytes = "vec", optional, tag = "1")]
    message: Option<Vec<u8>>,
    /// gRPC code, message and details of a failure.
    #[prost(int32, tag = "2")]
    code: i32,
    #[prost(string, tag = "3")]
    text: String,
    #[prost(bytes = "vec", tag = "4")]
    details: Vec<u8>,
}

pub struct Idempotency {
    backend: SharedBackend,
    keys: KeyRing,
    ids: SharedIdSource,
    started_at: i64,
}

impl Idempotency {
    pub fn new(backend: SharedBackend, keys: KeyRing, ids: SharedIdSource, now_ms: i64) -> Self {
        Self { backend, keys, ids, started_at: now_ms }
    }

    /// Performs a request that has passed all checks once per idempotency key. Without a key, it performs every
    /// request.
    pub async fn once<M: Message, T: Message + Default>(
        &self,
        call: &Call,
        message: &M,
        perform: impl AsyncFnOnce(&str) -> Result<T>,
    ) -> Result<T> {
        let fresh_seed = crate::domain::id::seed(call.now_ms, self.ids.as_ref());
        let Some(idempotency_key) = call.meta.idempotency_key.as_deref() else {
            return perform(&fresh_seed).await;
        };
        let key = IdempotencyKey {
            backend: Arc::clone(&self.backend),
            scope: call.caller.scope(),
            key: idempotency_key.to_owned(),
        };
        let mut hasher = Sha256::new();
        hasher.update(call.operation.name());
        hasher.update(message.encode_to_vec());
        let kept = StoredRequest {
            request: hasher.finalize().to_vec(),
            started_at: call.now_ms,
            answer: None,
            holder: fresh_seed.clone(),
            seed: fresh_seed,
        };
        // If the request fails, dropping this lets its next try begin at once.
        let mut taken_key = TakenKey(KeyRow { key, version: 0, kept });
        // If this is the only process, tries from before its start are dead.
        let dead_before = if self.backend.is_exclusive() { self.started_at } else { 0 };
        if let Some(sealed) = taken_key.0.take_key(dead_before).await? {
            *call.replayed.lock() = true;
            return self.replay(&taken_key.0.key, &sealed);
        }
        let result = perform(&taken_key.0.kept.seed).await;
        let answer = match &result {
            Ok(message) => KeptAnswer { message: Some(message.encode_to_vec()), ..KeptAnswer::default() },
            Err(error) if is_final(&error.api) => {
                let status = error.api.to_status("");
                KeptAnswer {
                    message: None,
                    code: status.code().into(),
                    text: status.message().to_owned(),
                    details: status.details().to_vec(),
                }
            }
            Err(error) => {
                // A refusal without a response to keep changed nothing, so its key may go to another request. An
                // earlier try that died may have changed something: then the key stays with its request.
                if error.api.code.http_status() < 500 && taken_key.0.kept.seed == taken_key.0.kept.holder {
                    taken_key.0.kept.request.clear();
                }
                taken_key.give_back().await;
                return result;
            }
        };
        let sealed = self.keys.seal(seal_purpose(&taken_key.0.key), &answer.encode_to_vec());
        taken_key.keep_answer(sealed).await;
        result
    }

    fn replay<T: Message + Default>(&self, key: &IdempotencyKey, sealed: &[u8]) -> Result<T> {
        let plain = self.keys.open(seal_purpose(key), sealed);
        let plain = plain.ok_or_else(|| Error::internal("a kept answer cannot be decrypted"))?;
        let answer = KeptAnswer::decode(plain.as_slice()).map_err(Error::internal)?;
        match answer.message {
            Some(message) => T::decode(message.as_slice()).map_err(Error::internal),
            None => {
                let status = Status::with_details(Code::from(answer.code), answer.text, answer.details.into());
                Err(ApiError::from_status(&status).into())
            }
        }
    }
}

/// The purpose of a sealed response: it opens only for the row of its key.
fn seal_purpose(key: &IdempotencyKey) -> SealPurpose<'_> {
    SealPurpose::IdempotentAnswer { scope: &key.scope, key: &key.key }
}

/// A key's row, as this try writes it.
#[derive(Clone)]
struct KeyRow {
    key: IdempotencyKey,
    /// The version is 0 while this try has surely not taken the key.
    version: i64,
    kept: StoredRequest,
}

impl KeyRow {
    /// Takes the key, or finds the response to its request. Tries from before `dead_before` are dead.
    async fn take_key(&mut self, dead_before: i64) -> Result<Option<Vec<u8>>> {
        let (mut expect, mut why) = (Expect::Absent, in_progress());
        for _ in 0..MAX_TRIES {
            self.version = match expect {
                Expect::Version(version) => version + 1,
                Expect::Absent | Expect::Any => 1,
            };
            match self.write(expect).await {
                Ok(true) => return Ok(None),
                Ok(false) => why = in_progress(),
                Err(error) => why = error.into(),
            }
            let Some((version, known)) = self.key.read().await? else {
                expect = Expect::Absent;
                continue;
            };
            if known.holder == self.kept.holder {
                self.version = version;
                return Ok(None);
            }
            self.version = 0;
            expect = Expect::Version(version);
            let age_ms = self.kept.started_at - known.started_at;
            if age_ms >= KEPT_MS || known.request.is_empty() {
                continue;
            }
            if known.request != self.kept.request {
                let text = "this idempotency key was used for another request; choose a new key for each request";
                return Err(Error::new(ErrorCode::IdempotencyKeyReused, text));
            }
            if known.answer.is_some() {
                return Ok(known.answer);
            }
            if known.started_at >= dead_before.max(self.kept.started_at - IN_FLIGHT_MS + 1) {
                return Err(in_progress());
            }
            self.kept.seed = known.seed;
        }
        Err(why)
    }

    async fn write(&self, expect: Expect) -> StoreResult<bool> {
        self.key.write(&self.kept, expect, self.version, u32::try_from(2 * KEPT_MS / 1_000).ok()).await
    }

    /// Gives the key back if this try holds it.
    async fn give_back(&mut self) -> Result<()> {
        if let Some((version, known)) = self.key.read().await?
            && known.holder == self.kept.holder
            && known.answer.is_none()
        {
            self.version = version + 1;
            self.write(Expect::Version(version)).await?;
        }
        Ok(())
    }
}

/// A key that is taken while its request runs. Dropping it before the response is kept gives the key back.
struct TakenKey(KeyRow);

impl TakenKey {
    /// Stores the response. If that fails, the next try completes the work of this one.
    async fn keep_answer(&mut self, sealed: Vec<u8>) {
        let mut row = self.0.clone();
        row.version += 1;
        row.kept.answer = Some(sealed);
        match row.write(Expect::Version(self.0.version)).await {
            Ok(_) => self.0.version = 0,
            Err(error) => tracing::warn!(%error, "keeping an answer for its idempotency key failed"),
        }
    }

    /// Gives the key back before the response of a failure, if the store answers in time. So the next try may follow at
    /// once.
    async fn give_back(&mut self) {
        if let Ok(Ok(())) = timeout(GIVE_BACK_WAIT, self.released().give_back()).await {
            self.0.version = 0;
        }
    }

    fn released(&self) -> KeyRow {
        let mut row = self.0.clone();
        // The time lies further back than necessary, since clocks differ.
        row.kept.started_at -= 2 * IN_FLIGHT_MS;
        row
    }
}

impl Drop for TakenKey {
    fn drop(&mut self) {
        let (true, Ok(runtime)) = (self.0.version > 0, Handle::try_current()) else { return };
        let mut row = self.released();
        // The failure that stopped the request may stop this too. After `GIVE_BACK_TIMEOUT` it is not needed.
        runtime.spawn(timeout(GIVE_BACK_TIMEOUT, async move {
            while row.give_back().await.is_err() {
                sleep(RETRY_PAUSE).await;
            }
        }));
    }
}

/// True if the same request would be refused again at any later time.
fn is_final(error: &ApiError) -> bool {
    match error.code {
        ErrorCode::WebhookLimitReached | ErrorCode::AlertLimitReached => false,
        ErrorCode::WebhookUrlForbidden => {
            let reason = error.details.as_ref().and_then(|details| details["reason"].as_str());
            reason != Some(Refusal::Unresolvable.as_str())
        }
        code => !matches!(code.http_status(), 409 | 429 | 500..),
    }
}

fn in_progress() -> Error {
    ApiError::new(
        ErrorCode::IdempotencyInProgress,
        "a request with this idempotency key is being answered; send it again in a second",
    )
    .with_retry_after(1)
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::{ManualClock, NOON, memory};

    fn row(backend: &SharedBackend, request: &[u8], holder: &str, started_at: i64) -> KeyRow {
        let (scope, key) = ("prj_1/test".to_owned(), "once".to_owned());
        let key = IdempotencyKey { backend: Arc::clone(backend), scope, key };
        let (request, seed, holder) = (request.to_vec(), holder.to_owned(), holder.to_owned());
        KeyRow { key, version: 0, kept: StoredRequest { request, started_at, answer: None, seed, holder } }
    }

    async fn take(row: &mut KeyRow, dead_before: i64) -> std::result::Result<Option<Vec<u8>>, ErrorCode> {
        row.take_key(dead_before).await.map_err(|error| error.api.code)
    }

    #[tokio::test]
    async fn a_request_in_flight_blocks_its_repeats_for_thirty_seconds() {
        let backend = memory(&ManualClock::new());
        let repeat = |later: i64| row(&backend, b"a", "second", NOON + later);
        let mut first = row(&backend, b"a", "first", NOON);
        assert_eq!((take(&mut first, 0).await, first.version), (Ok(None), 1));
        assert_eq!((take(&mut first, 0).await, first.version), (Ok(None), 1), "a write in doubt that had happened");
        for later in [0, 29_999] {
            assert_eq!(take(&mut repeat(later), 0).await, Err(ErrorCode::IdempotencyInProgress));
        }
        let mut other = row(&backend, b"b", "second", NOON + 29_999);
        assert_eq!(take(&mut other, 0).await, Err(ErrorCode::IdempotencyKeyReused));
        let mut next = repeat(30_000);
        assert_eq!(take(&mut next, 0).await, Ok(None));
        assert_eq!((next.version, next.kept.seed.as_str()), (2, "first"));
    }

    #[tokio::test]
    async fn a_request_from_before_the_start_of_the_only_process_is_dead() {
        let backend = memory(&ManualClock::new());
        let repeat = || row(&backend, b"a", "second", NOON + 1);
        assert_eq!(take(&mut row(&backend, b"a", "first", NOON), 0).await, Ok(None));
        assert_eq!(take(&mut repeat(), NOON).await, Err(ErrorCode::IdempotencyInProgress));
        assert_eq!(take(&mut repeat(), NOON + 1).await, Ok(None));
    }

    #[tokio::test]
    async fn a_response_is_kept_for_a_day() {
        const DAY_MS: i64 = 86_400_000;
        let backend = memory(&ManualClock::new());
        let repeat = |later: i64| row(&backend, b"a", "second", NOON + later);
        let mut first = TakenKey(row(&backend, b"a", "first", NOON));
        assert_eq!(take(&mut first.0, 0).await, Ok(None));
        first.keep_answer(vec![7]).await;
        assert_eq!(first.0.version, 0, "it is not given back");
        for later in [0, DAY_MS - 1] {
            assert_eq!(take(&mut repeat(later), 0).await, Ok(Some(vec![7])));
        }
        let mut next = repeat(DAY_MS);
        assert_eq!(take(&mut next, 0).await, Ok(None));
        assert_eq!(next.kept.seed, "second");
    }

    #[tokio::test]
    async fn a_key_that_its_holder_gives_back_is_free_at_once() {
        let backend = memory(&ManualClock::new());
        // The clock of the next core is behind.
        let repeat = || row(&backend, b"a", "second", NOON - 20_000);
        let mut first = TakenKey(row(&backend, b"a", "first", NOON));
        assert_eq!(take(&mut first.0, 0).await, Ok(None));
        repeat().give_back().await.unwrap();
        assert_eq!(take(&mut repeat(), 0).await, Err(ErrorCode::IdempotencyInProgress), "it was not the holder");
        first.give_back().await;
        assert_eq!(first.0.version, 0);
        let mut next = repeat();
        assert_eq!(take(&mut next, 0).await, Ok(None));
        assert_eq!(next.kept.seed, "first");
    }

    #[test]
    fn a_refusal_is_final_unless_it_may_pass() {
        let error = |code| ApiError::new(code, "");
        for code in [ErrorCode::ValidationFailed, ErrorCode::HistoryLimit, ErrorCode::WebhookNotFound] {
            assert!(is_final(&error(code)), "{code:?}");
        }
        for code in [
            ErrorCode::WebhookLimitReached,
            ErrorCode::ChangedMeanwhile,
            ErrorCode::RateLimited,
            ErrorCode::InternalError,
            ErrorCode::ServiceUnavailable,
        ] {
            assert!(!is_final(&error(code)), "{code:?}");
        }
        let refused = |reason: Refusal| {
            let details = serde_json::json!({ "reason": reason.as_str() });
            error(ErrorCode::WebhookUrlForbidden).with_details(details)
        };
        assert!(is_final(&refused(Refusal::Private)) && !is_final(&refused(Refusal::Unresolvable)));
    }
}
