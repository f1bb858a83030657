//! The calls to the cores.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use thesis_net::{
    backoff::Backoff,
    clock::SharedIdSource,
    panics,
    services::{Deliveries, Stream, own_request},
};
use thesis_proto::v1::{AttemptReport, ClaimRequest, ClaimResponse, ReportRequest};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tonic::{Code, Status};

/// Timeout for core's response to reports. Core may have vanished, and a report may be repeated.
const REPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum reports of one call.
const MAX_BATCH: usize = 256;
/// Maximum open calls to one core. Reports that arrive during the calls go together, which costs core's store much
/// less.
const MAX_CALLS: usize = 2;
/// Calls to the core that assigned the attempts, before the worker calls another core.
const OWN_CORE_CALLS: usize = 2;

/// The wait before a core is called again.
pub(crate) const fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(50), Duration::from_secs(2))
}

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
        Ok(self.cores[core].claim(own_request(ClaimRequest { capacity })).await?.into_inner())
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
    let mut backoff = backoff();
    let request_of = |reports: &Vec<AttemptReport>| {
        let mut request = own_request(ReportRequest { reports: reports.clone() });
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
