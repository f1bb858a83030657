//! The worker's loop.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt as _, TryStreamExt as _};
use thesis_net::{
    failure_log::FailureLog,
    metric::InProgress,
    services::{ATTEMPTS_A_PLACE, Stream},
    status,
};
use thesis_proto::{
    time::to_millis,
    v1::{AttemptReleased, AttemptReport, ClaimResponse, attempt_report::Outcome},
};
use tokio::{select, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::{
    metrics,
    report::{BACKOFF, Cores},
    send::{AttemptResult, Sender, drain},
    traced::TracedAttempt,
};

/// Timeout for open attempts and reports at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(7_500);

pub(crate) struct Worker {
    pub(crate) cores: Arc<Cores>,
    pub(crate) sender: Sender,
    pub(crate) capacity: usize,
}

impl Worker {
    /// Takes claims from every core.
    pub(crate) async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let each = (0..self.cores.count()).map(|core| Arc::clone(&self).work_for(core, shutdown.clone()));
        futures::future::join_all(each).await;
    }

    async fn work_for(self: Arc<Self>, core: usize, shutdown: CancellationToken) {
        let mut attempts = JoinSet::new();
        let (mut backoff, mut failure_log) = (BACKOFF, FailureLog::default());
        // Attempts outlive the stream of their claims: a lost core is no reason to send twice.
        while !shutdown.is_cancelled() {
            let Some(claims) = shutdown.run_until_cancelled(self.cores.claim(core, self.capacity)).await else {
                break;
            };
            let ended = match claims {
                Ok(claims) => {
                    backoff.reset();
                    if failure_log.note_success() {
                        tracing::info!("claims from core again");
                    }
                    self.take(core, claims, &mut attempts, &shutdown).await
                }
                Err(status) => Some(status),
            };
            if !shutdown.is_cancelled() {
                metrics::STREAMS_LOST.one().increment(1);
                if failure_log.note_failure() {
                    tracing::warn!(status = ended.map(tracing::field::display), "no claims from core, asking again");
                }
                shutdown.run_until_cancelled(tokio::time::sleep(backoff.next(&**self.cores.ids()))).await;
            }
        }
        let finished =
            tokio::time::timeout(DRAIN_TIMEOUT, async { while attempts.join_next().await.is_some() {} }).await;
        if finished.is_err() {
            tracing::warn!(attempts = attempts.len(), "left attempts unreported; core hands them out again");
        }
    }

    /// Starts attempts for claims until the stream ends or the worker stops. Returns the error that ended the stream.
    async fn take(
        self: &Arc<Self>,
        core: usize,
        mut claims: Stream<ClaimResponse>,
        attempts: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> Option<Status> {
        loop {
            select! {
                () = shutdown.cancelled() => break,
                Some(ended) = attempts.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "an attempt broke off");
                    }
                }
                claim = claims.try_next(), if attempts.len() < ATTEMPTS_A_PLACE * self.capacity => match claim {
                    Ok(Some(claim)) => {
                        attempts.spawn(Arc::clone(self).attempt(core, claim));
                    }
                    Ok(None) => return None,
                    Err(status) => return Some(status),
                }
            }
        }
        let unstarted: Vec<_> =
            std::iter::from_fn(|| claims.try_next().now_or_never().and_then(Result::ok).flatten()).collect();
        // Core would send the released claims to this stream again.
        drop(claims);
        for claim in unstarted {
            attempts.spawn(Arc::clone(self).release(core, claim));
        }
        None
    }

    async fn attempt(self: Arc<Self>, core: usize, claim: ClaimResponse) {
        let _in_progress = InProgress::begin(metrics::IN_PROGRESS.one());
        let (delivery_id, attempt, traced) = (claim.delivery_id.clone(), claim.attempt, TracedAttempt::begin(&claim));
        // Later attempts wait as the retry schedule says, so the time since the event counts for the first one alone.
        let is_first = attempt == 1 && !claim.is_test && claim.replay_of.is_none();
        let event_ms = claim.event_created_at.as_ref().filter(|_| is_first).map(to_millis);
        let began = Instant::now();
        let AttemptResult { started_at, latency_ms, outcome, kind, response, deadline } = self.sender.send(claim).await;
        status::ATTEMPTS.record(began.elapsed().as_secs_f64());
        metrics::count(&outcome, latency_ms);
        if metrics::name(&outcome) == metrics::DELIVERED
            && let Some(event_ms) = event_ms
        {
            status::DELIVERIES.record_since(event_ms);
        }
        traced.end(&outcome, kind, latency_ms);
        let report =
            AttemptReport { delivery_id, attempt, started_at: Some(started_at), latency_ms, outcome: Some(outcome) };
        tokio::join!(self.cores.report(core, report), drain(response, deadline));
    }

    async fn release(self: Arc<Self>, core: usize, claim: ClaimResponse) {
        let report = AttemptReport {
            delivery_id: claim.delivery_id,
            attempt: claim.attempt,
            started_at: None,
            latency_ms: 0,
            outcome: Some(Outcome::Released(AttemptReleased {})),
        };
        self.cores.report(core, report).await;
    }
}
