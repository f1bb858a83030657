//! The calls to core.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use thesis_net::{
    clock::SharedIdSource,
    panics,
    services::{Deliveries, Stream, Trusted},
};
use thesis_proto::v1::{ClaimRequest, ClaimResponse, ReportRequest};
use tokio::time::timeout;
use tonic::{Code, Request, Status};

use crate::backoff::Backoff;

/// Longest wait for core's answer to a report. Core may be gone without a word, and a report may be repeated.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Core {
    deliveries: Arc<Deliveries>,
    ids: SharedIdSource,
}

impl Core {
    pub(crate) fn new(deliveries: Arc<Deliveries>, ids: SharedIdSource) -> Self {
        Self { deliveries, ids }
    }

    pub(crate) async fn claim(&self, worker_id: &str, capacity: usize) -> Result<Stream<ClaimResponse>, Status> {
        let capacity = i32::try_from(capacity).unwrap_or(i32::MAX);
        let request = request(ClaimRequest { worker_id: worker_id.into(), capacity });
        Ok(self.deliveries.claim(request).await?.into_inner())
    }

    /// Repeats the report until core takes it, or says that it never will.
    pub(crate) async fn report(&self, report: ReportRequest) {
        let mut backoff = Backoff::new();
        loop {
            let mut request = request(report.clone());
            request.set_timeout(REPORT_TIMEOUT);
            // In one process a panic in core arrives here.
            let reporting = AssertUnwindSafe(self.deliveries.report(request)).catch_unwind();
            let answer = match timeout(REPORT_TIMEOUT, reporting).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(panic)) => Err(Status::internal(panics::text(panic.as_ref()))),
                Err(_) => Err(Status::deadline_exceeded("no answer")),
            };
            let Err(status) = answer else { return };
            let (delivery_id, attempt) = (&report.delivery_id, report.attempt);
            if is_final(status.code()) {
                tracing::warn!(delivery_id, attempt, %status, "core refused a report");
                return;
            }
            tracing::debug!(delivery_id, attempt, %status, "a report did not arrive, repeating it");
            tokio::time::sleep(backoff.next(&*self.ids)).await;
        }
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
