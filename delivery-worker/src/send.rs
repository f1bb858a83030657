//! One attempt: sign, vet, POST.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use prost_types::Timestamp;
use reqwest::Response;
use thesis_net::clock::SharedClock;
use thesis_proto::{
    time::from_millis,
    v1::{AttemptFailure, AttemptResponse, ClaimResponse, attempt_report::Outcome},
};
use tokio::time::{Instant, timeout_at};

use crate::{client::Transport, failure::Failure, guard::Guard, mask::mask, metrics::FAILURES, sign::Signer};

/// Maximum bytes of a response, and time to read them, so that its connection can be reused; others are closed.
const MAX_DRAIN_BYTES: usize = 16 * 1024;
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes of a failed attempt's response in the report.
pub(crate) const MAX_REPORTED_BYTES: usize = 1_024;

/// The result of an attempt.
pub(crate) struct AttemptResult {
    pub(crate) started_at: Timestamp,
    pub(crate) latency_ms: i32,
    pub(crate) outcome: Outcome,
    /// The kind of its failure, if there was no response.
    pub(crate) kind: Option<&'static str>,
    pub(crate) response: Option<Response>,
    pub(crate) deadline: Instant,
}

pub(crate) struct Sender {
    pub(crate) guard: Guard,
    pub(crate) signer: Signer,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) timeout: Duration,
    pub(crate) clock: SharedClock,
}

impl Sender {
    pub(crate) async fn send(&self, claim: ClaimResponse) -> AttemptResult {
        let started_ms = self.clock.now_ms();
        let deadline = Instant::now() + self.timeout;
        let post = self.post(&claim, started_ms.div_euclid(1000));
        let response = timeout_at(deadline, post).await.unwrap_or(Err(Failure::Timeout));
        let latency_ms = i32::try_from(self.clock.now_ms() - started_ms).unwrap_or(i32::MAX).max(0);
        let kind = response.as_ref().err().map(Failure::kind);
        let (outcome, response) = match response {
            Ok(mut response) => {
                let status = response.status();
                let body = if status.is_success() {
                    Bytes::new()
                } else {
                    let mut body = mask(beginning(&mut response, deadline).await, &claim);
                    body.truncate(MAX_REPORTED_BYTES);
                    body
                };
                (Outcome::Response(AttemptResponse { status: status.as_u16().into(), body }), Some(response))
            }
            Err(failure) => {
                FAILURES.at(failure.kind()).increment(1);
                (Outcome::Failure(AttemptFailure { reason: failure.to_string() }), None)
            }
        };
        AttemptResult { started_at: from_millis(started_ms), latency_ms, outcome, kind, response, deadline }
    }

    async fn post(&self, claim: &ClaimResponse, unix_seconds: i64) -> Result<Response, Failure> {
        let headers = self.signer.headers(claim, unix_seconds).ok_or(Failure::Request)?;
        let target = self.guard.vet(&claim.url, claim.livemode).await?;
        self.transport.post(target, headers, claim.body.clone()).await
    }
}

/// Reads the beginning of a response's body, or the part of it that arrives in time.
async fn beginning(response: &mut Response, deadline: Instant) -> Bytes {
    let mut body = Vec::new();
    let reading = async {
        while body.len() < MAX_REPORTED_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    };
    let _ = timeout_at(deadline.min(Instant::now() + DRAIN_TIMEOUT), reading).await;
    body.truncate(MAX_REPORTED_BYTES);
    body.into()
}

/// Reads the rest of a short response, so that its connection can be reused.
pub(crate) async fn drain(response: Option<Response>, deadline: Instant) {
    let Some(mut response) = response else { return };
    if response.content_length().is_some_and(|length| length > MAX_DRAIN_BYTES as u64) {
        return;
    }
    let mut left = MAX_DRAIN_BYTES;
    let rest = async {
        while let Ok(Some(chunk)) = response.chunk().await
            && let Some(less) = left.checked_sub(chunk.len())
        {
            left = less;
        }
    };
    // A longer or slower response is dropped, and its connection with it.
    let _ = timeout_at(deadline.min(Instant::now() + DRAIN_TIMEOUT), rest).await;
}
