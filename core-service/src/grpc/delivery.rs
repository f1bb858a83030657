//! `DeliveryService`: due attempts for delivery workers.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::BoxStream;
use thesis_net::trace::Trace;
use thesis_proto::{
    time::{from_millis, to_millis},
    v1::{self, attempt_report::Outcome, delivery_service_server::DeliveryService},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{internal, reached, service_only},
};
use crate::{
    convert::delivery::payload,
    delivery::dispatch::{ClaimedAttempt, EndedAttempt},
    domain::delivery::Attempt,
    keys::key_ring::SealPurpose,
    service::Core,
    tables::failed_responses,
};

/// Unreported attempts that one worker may request.
const MAX_CAPACITY: i32 = 4_096;
/// Reports of one call.
const MAX_REPORTS: usize = 1_000;
/// Maximum number of stored bytes of the response to a failed attempt.
const MAX_RESPONSE_BYTES: usize = 1_024;
/// Maximum number of responses in one write.
const MAX_RESPONSES: usize = 100;

/// The beginning of the response to a failed attempt.
struct FailedResponse {
    delivery: String,
    attempt: i32,
    started_at: i64,
    body: Bytes,
}

/// Stores the beginnings of responses, encrypted. A failure is only logged: the reports count without them.
async fn keep_responses(core: &Core, responses: &[FailedResponse]) {
    for some in responses.chunks(MAX_RESPONSES) {
        let changes = some.iter().map(|response| {
            let FailedResponse { delivery, attempt, started_at, body } = response;
            let purpose = SealPurpose::FailedResponse(delivery, *attempt);
            let sealed = core.shared.keys.seal(purpose, &body[..body.len().min(MAX_RESPONSE_BYTES)]);
            failed_responses::change(delivery, *attempt, *started_at, sealed)
        });
        if let Err(error) = core.shared.backend.apply(changes.collect()).await {
            tracing::warn!(%error, "responses to failed attempts could not be kept");
        }
    }
}

fn claim(claimed: &ClaimedAttempt) -> v1::ClaimResponse {
    let delivery = &claimed.delivery;
    v1::ClaimResponse {
        attempt: delivery.attempt_count() + 1,
        delivery_id: delivery.id.clone(),
        webhook_id: delivery.webhook_id.clone(),
        url: claimed.webhook.url.clone(),
        event_id: delivery.event_id.clone(),
        event_type: delivery.event_type,
        // The dispatcher hands out no attempt without a payload.
        body: payload(&claimed.webhook, &claimed.body).unwrap_or_default(),
        secrets: claimed.secrets.signing.clone(),
        livemode: claimed.webhook.live,
        is_test: delivery.is_test,
        replay_of: delivery.replay_of.clone(),
        traceparent: Trace::from_stored(&delivery.trace).map(|trace| trace.header()).unwrap_or_default(),
        signing_key: Bytes::copy_from_slice(&claimed.secrets.signing_key),
        headers: claimed.secrets.headers.clone(),
        event_created_at: Some(from_millis(delivery.created_at)),
    }
}

#[async_trait]
impl DeliveryService for Api {
    type ClaimStream = BoxStream<'static, Result<v1::ClaimResponse, Status>>;

    async fn claim(&self, request: Request<v1::ClaimRequest>) -> Result<Response<Self::ClaimStream>, Status> {
        service_only(&self.core, &request)?;
        let capacity = request.into_inner().capacity.clamp(1, MAX_CAPACITY);
        let (slot, claims) = self.core.dispatcher.join(usize::try_from(capacity).unwrap_or(1));
        let stop = self.core.stop.clone();
        let stream = ReceiverStream::new(claims).map(move |claimed| {
            // Dropping the stream frees the slot.
            let _holds = &slot;
            Ok(claim(&claimed))
        });
        let stopped = async move { stop.cancelled_owned().await };
        let stream = futures::StreamExt::take_until(stream, Box::pin(stopped));
        Ok(Response::new(Box::pin(stream)))
    }

    async fn report(&self, request: Request<v1::ReportRequest>) -> Result<Response<v1::ReportResponse>, Status> {
        service_only(&self.core, &request)?;
        let reports = request.into_inner().reports;
        if reports.len() > MAX_REPORTS {
            return Err(Status::invalid_argument(format!("reports: must be at most {MAX_REPORTS}")));
        }
        let (mut ended, mut responses) = (Vec::with_capacity(reports.len()), Vec::new());
        for report in reports {
            let now_ms = || self.core.shared.clock.now_ms();
            let started_at = report.started_at.as_ref().map_or_else(now_ms, to_millis);
            let (response_status, failure) = match report.outcome {
                Some(Outcome::Response(v1::AttemptResponse { status, body })) => {
                    if !body.is_empty() {
                        let (delivery, attempt) = (report.delivery_id.clone(), report.attempt);
                        responses.push(FailedResponse { delivery, attempt, started_at, body });
                    }
                    (Some(status), None)
                }
                Some(Outcome::Failure(failure)) => (None, Some(failure.reason)),
                Some(Outcome::Released(_)) => {
                    self.core.dispatcher.release_claim(&report.delivery_id, report.attempt);
                    continue;
                }
                None => return Err(Status::invalid_argument("reports.outcome: is required")),
            };
            let attempt =
                Attempt { number: report.attempt, started_at, response_status, latency_ms: report.latency_ms, failure };
            ended.push(EndedAttempt { delivery: report.delivery_id, attempt });
        }
        let core = Arc::clone(&self.core);
        let reporting = async move {
            keep_responses(&core, &responses).await;
            core.dispatcher.report(ended).await.map(|()| v1::ReportResponse {})
        };
        let reported = reached(&self.core, self.core.run_to_end(reporting));
        internal(&self.core, "DeliveryService/Report", reported).await
    }
}
