//! The calls to core.

use std::time::Duration;

use thesis_net::{channel::CoreChannel, clock::SharedIdSource};
use thesis_proto::{
    metadata::SERVICE_TOKEN,
    v1::{ClaimRequest, ClaimResponse, ReportRequest, delivery_service_client::DeliveryServiceClient},
};
use tonic::{
    Code, Request, Status, Streaming,
    metadata::{Ascii, MetadataValue},
};

use crate::{WorkerError, backoff::Backoff};

/// Core may be gone without a word; a report may be repeated.
const REPORT_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Core {
    client: DeliveryServiceClient<CoreChannel>,
    token: MetadataValue<Ascii>,
    ids: SharedIdSource,
}

impl Core {
    pub(crate) fn new(channel: CoreChannel, token: &str, ids: SharedIdSource) -> Result<Self, WorkerError> {
        let mut token = MetadataValue::try_from(token).map_err(|_| WorkerError::ServiceToken)?;
        token.set_sensitive(true);
        Ok(Self { client: DeliveryServiceClient::new(channel), token, ids })
    }

    pub(crate) async fn claim(&self, worker_id: &str, capacity: usize) -> Result<Streaming<ClaimResponse>, Status> {
        let capacity = i32::try_from(capacity).unwrap_or(i32::MAX);
        let request = self.request(ClaimRequest { worker_id: worker_id.into(), capacity });
        Ok(self.client.clone().claim(request).await?.into_inner())
    }

    /// Repeats the report until core takes it, or says that it never will.
    pub(crate) async fn report(&self, report: ReportRequest) {
        let mut backoff = Backoff::new();
        loop {
            let mut request = self.request(report.clone());
            request.set_timeout(REPORT_TIMEOUT);
            let mut client = self.client.clone();
            let answer = tokio::time::timeout(REPORT_TIMEOUT, client.report(request)).await;
            let Err(status) = answer.unwrap_or_else(|_| Err(Status::deadline_exceeded("no answer"))) else {
                return;
            };
            let (delivery_id, attempt) = (&report.delivery_id, report.attempt);
            if is_final(status.code()) {
                tracing::warn!(delivery_id, attempt, %status, "core refused a report");
                return;
            }
            tracing::debug!(delivery_id, attempt, %status, "a report did not arrive, repeating it");
            tokio::time::sleep(backoff.next(&*self.ids)).await;
        }
    }

    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.metadata_mut().insert(SERVICE_TOKEN, self.token.clone());
        request
    }
}

const fn is_final(code: Code) -> bool {
    matches!(code, Code::InvalidArgument | Code::NotFound | Code::FailedPrecondition | Code::Unimplemented)
}
