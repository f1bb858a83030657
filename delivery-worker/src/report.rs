//! The calls to the cores.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use thesis_net::{
    backoff::Backoff,
    clock::SharedIdSource,
    panics,
    services::{Deliveries, Stream, Trusted},
};
use thesis_proto::v1::{AttemptReport, ClaimRequest, ClaimResponse, ReportRequest};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tonic::{Code, Status};

use crate::send::MAX_REPORTED_BYTES;

/// Timeout for core's response to reports. Core may have vanished, and a report may be repeated.
const REPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// The waits before core is called again: they grow to a second, and to one and a half with their random part.
pub(crate) const BACKOFF: Backoff = Backoff::new(Duration::from_millis(25), Duration::from_secs(1));
/// Maximum reports of one call.
const MAX_BATCH: usize = 200;
/// Core accepts messages of up to 256 KiB. Without the beginning of the response, a report has fewer than 128 bytes.
const _: () = assert!(MAX_BATCH * (MAX_REPORTED_BYTES + 128) <= 256 * 1024, "core takes a call full of reports");
/// Maximum open calls to one core. Reports that arrive during the calls go together, which costs core's store much
/// less.
const MAX_CALLS: usize = 2;
/// Calls to the core that assigned the attempts, before the worker calls another core.
const OWN_CORE_CALLS: usize = 2;

/// A report, and the caller that waits until core has it.
type PendingReport = (AttemptReport, oneshot::Sender<()>);

/// The cores that assign attempts.
pub(crate) struct Cores {
    cores: Vec<Arc<Deliveries>>,
    /// The queue of reports to each core.
    reports: Vec<mpsc::UnboundedSender<PendingReport>>,
    ids: SharedIdSource,
}

impl Cores {
    pub(crate) fn new(cores: Vec<Arc<Deliveries>>, ids: SharedIdSource) -> Arc<Self> {
        let (reports, queues): (Vec<_>, Vec<_>) = cores.iter().map(|_| mpsc::unbounded_channel()).unzip();
        for (index, queue) in queues.into_iter().enumerate() {
            tokio::spawn(report_all(cores.clone(), index, queue, Arc::clone(&ids)));
        }
        Arc::new(Self { cores, reports, ids })
    }

    /// The number of cores.
    pub(crate) fn count(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn ids(&self) -> &SharedIdSource {
        &self.ids
    }

    pub(crate) async fn claim(&self, core: usize, capacity: usize) -> Result<Stream<ClaimResponse>, Status> {
        let capacity = i32::try_from(capacity).unwrap_or(i32::MAX);
        Ok(self.cores[core].claim(Trusted::request(ClaimRequest { capacity })).await?.into_inner())
    }

    /// Waits until a core has accepted or finally refused the report of an attempt that this core assigned.
    pub(crate) async fn report(&self, core: usize, report: AttemptReport) {
        let (done, reported) = oneshot::channel();
        if self.reports[core].send((report, done)).is_ok() {
            // An error means that the runtime is ending.
            let _ = reported.await;
        }
    }
}

/// Sends the queued reports in batches.
async fn report_all(
    cores: Vec<Arc<Deliveries>>,
    index: usize,
    mut queue: mpsc::UnboundedReceiver<PendingReport>,
    ids: SharedIdSource,
) {
    let calls = Arc::new(Semaphore::new(MAX_CALLS));
    let mut waiting = Vec::with_capacity(MAX_BATCH);
    loop {
        let Ok(call) = Arc::clone(&calls).acquire_owned().await else { return };
        if queue.recv_many(&mut waiting, MAX_BATCH).await == 0 {
            return;
        }
        let (reports, callers): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
        let (cores, ids) = (cores.clone(), Arc::clone(&ids));
        tokio::spawn(async move {
            report(&cores, index, reports, &ids).await;
            drop(call);
            for caller in callers {
                // The caller may have been cancelled.
                let _ = caller.send(());
            }
        });
    }
}

/// Repeats a call until a core accepts or finally refuses it. Calls the other cores once this one does not respond.
async fn report(cores: &[Arc<Deliveries>], index: usize, reports: Vec<AttemptReport>, ids: &SharedIdSource) {
    let mut backoff = BACKOFF;
    let request_of = |reports: &Vec<AttemptReport>| {
        let mut request = Trusted::request(ReportRequest { reports: reports.clone() });
        request.set_timeout(REPORT_TIMEOUT);
        request
    };
    for attempt in 0.. {
        let core = &cores[(index + usize::saturating_sub(attempt, OWN_CORE_CALLS - 1)) % cores.len()];
        // In one process a panic in core arrives here.
        let reporting = AssertUnwindSafe(core.report(request_of(&reports))).catch_unwind();
        let result = match timeout(REPORT_TIMEOUT, reporting).await {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(Status::internal(panics::text(panic.as_ref()))),
            Err(_) => Err(Status::deadline_exceeded("no answer")),
        };
        let Err(status) = result else { return };
        if is_final(status.code()) {
            tracing::warn!(reports = reports.len(), %status, "core refused reports");
            return;
        }
        tracing::debug!(reports = reports.len(), %status, "reports did not arrive, repeating them");
        tokio::time::sleep(backoff.next(&**ids)).await;
    }
}

const fn is_final(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::Unimplemented)
}

#[cfg(test)]
mod tests {
    use thesis_net::clock::SystemIdSource;
    use thesis_proto::v1::{ReportResponse, delivery_service_server::DeliveryService};
    use tonic::{Request, Response};

    use super::*;

    /// A core that notes who is called, and takes reports or is away.
    struct FakeCore {
        number: usize,
        is_away: bool,
        calls: mpsc::UnboundedSender<usize>,
    }

    #[tonic::async_trait]
    impl DeliveryService for FakeCore {
        type ClaimStream = Stream<ClaimResponse>;

        async fn claim(&self, _: Request<ClaimRequest>) -> Result<Response<Self::ClaimStream>, Status> {
            Err(Status::unimplemented("it hands out nothing"))
        }

        async fn report(&self, _: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
            self.calls.send(self.number).map_err(|error| Status::internal(error.to_string()))?;
            if self.is_away { Err(Status::unavailable("it is away")) } else { Ok(Response::new(ReportResponse {})) }
        }
    }

    #[tokio::test]
    async fn the_other_cores_are_called_after_two_calls_to_the_own_one() {
        let (calls, mut called) = mpsc::unbounded_channel();
        let cores: Vec<Arc<Deliveries>> = [false, true, true]
            .into_iter()
            .enumerate()
            .map(|(number, is_away)| Arc::new(FakeCore { number, is_away, calls: calls.clone() }) as Arc<Deliveries>)
            .collect();
        let ids: SharedIdSource = Arc::new(SystemIdSource);
        report(&cores, 1, vec![AttemptReport::default()], &ids).await;
        let order: Vec<usize> = std::iter::from_fn(|| called.try_recv().ok()).collect();
        assert_eq!(order, [1, 1, 2, 0]);
    }

    #[test]
    fn only_a_refusal_that_stays_is_final() {
        for code in [Code::InvalidArgument, Code::NotFound, Code::FailedPrecondition, Code::Unimplemented] {
            assert!(is_final(code), "{code:?}");
        }
        for code in [Code::Unavailable, Code::DeadlineExceeded, Code::Internal, Code::Aborted, Code::Unauthenticated] {
            assert!(!is_final(code), "{code:?}");
        }
    }
}
