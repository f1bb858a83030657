//! The calls to the cores.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use thesis_net::{
    clock::SharedIdSource,
    panics,
    services::{Deliveries, Stream, Trusted},
};
use thesis_proto::v1::{AttemptReport, ClaimRequest, ClaimResponse, ReportRequest};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};
use tonic::{Code, Request, Status};

use crate::backoff::Backoff;

/// Longest wait for core's answer to reports. Core may be gone without a word, and a report may be repeated.
const REPORT_TIMEOUT: Duration = Duration::from_secs(3);
/// Most reports of one call.
const BATCH: usize = 256;
/// Most calls to one core at once. What comes in meanwhile goes together, which costs core's store much less.
const CALLS: usize = 2;
/// Calls to the core that handed the attempts out, before any other is asked.
const PATIENCE: usize = 2;

/// A report, and the one who waits until core has it.
type Waiting = (AttemptReport, oneshot::Sender<()>);

/// The cores that hand out attempts.
pub(crate) struct Cores {
    cores: Vec<Arc<Deliveries>>,
    /// Reports to each.
    reports: Vec<mpsc::UnboundedSender<Waiting>>,
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

    /// How many cores there are.
    pub(crate) fn count(&self) -> usize {
        self.cores.len()
    }

    pub(crate) fn ids(&self) -> &SharedIdSource {
        &self.ids
    }

    pub(crate) async fn claim(&self, core: usize, capacity: usize) -> Result<Stream<ClaimResponse>, Status> {
        let capacity = i32::try_from(capacity).unwrap_or(i32::MAX);
        Ok(self.cores[core].claim(request(ClaimRequest { capacity })).await?.into_inner())
    }

    /// Waits until a core has a report of an attempt that this core handed out, or says that it never will.
    pub(crate) async fn report(&self, core: usize, report: AttemptReport) {
        let (done, told) = oneshot::channel();
        if self.reports[core].send((report, done)).is_ok() {
            // An error means that the runtime is ending.
            let _ = told.await;
        }
    }
}

/// Reports what comes in, as many at once as wait.
async fn report_all(
    cores: Vec<Arc<Deliveries>>,
    index: usize,
    mut queue: mpsc::UnboundedReceiver<Waiting>,
    ids: SharedIdSource,
) {
    let calls = Arc::new(Semaphore::new(CALLS));
    let mut waiting = Vec::with_capacity(BATCH);
    loop {
        let Ok(call) = Arc::clone(&calls).acquire_owned().await else { return };
        if queue.recv_many(&mut waiting, BATCH).await == 0 {
            return;
        }
        let (reports, told): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
        let (cores, ids) = (cores.clone(), Arc::clone(&ids));
        tokio::spawn(async move {
            report(&cores, index, reports, &ids).await;
            drop(call);
            for told in told {
                // The one who waits may have been given up.
                let _ = told.send(());
            }
        });
    }
}

/// Repeats a call until a core takes it, or says that it never will. The others are asked once this one does not answer.
async fn report(cores: &[Arc<Deliveries>], index: usize, reports: Vec<AttemptReport>, ids: &SharedIdSource) {
    let mut backoff = Backoff::new();
    let request_of = |reports: &Vec<AttemptReport>| {
        let mut request = request(ReportRequest { reports: reports.clone() });
        request.set_timeout(REPORT_TIMEOUT);
        request
    };
    for attempt in 0.. {
        let core = &cores[(index + usize::saturating_sub(attempt, PATIENCE - 1)) % cores.len()];
        // In one process a panic in core arrives here.
        let reporting = AssertUnwindSafe(core.report(request_of(&reports))).catch_unwind();
        let answer = match timeout(REPORT_TIMEOUT, reporting).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(panic)) => Err(Status::internal(panics::text(panic.as_ref()))),
            Err(_) => Err(Status::deadline_exceeded("no answer")),
        };
        let Err(status) = answer else { return };
        if is_final(status.code()) {
            tracing::warn!(reports = reports.len(), %status, "core refused reports");
            return;
        }
        tracing::debug!(reports = reports.len(), %status, "reports did not arrive, repeating them");
        tokio::time::sleep(backoff.next(&**ids)).await;
    }
}

fn request<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Trusted::default());
    request
}

const fn is_final(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::Unimplemented)
}
