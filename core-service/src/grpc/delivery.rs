//! `DeliveryService`: due attempts for delivery workers.

use futures::TryFutureExt as _;
use futures::stream::BoxStream;
use thesis_proto::{
    json::event_json,
    time::to_millis,
    v1::{self, delivery_service_server::DeliveryService, report_request::Outcome as Reported},
};
use tokio_stream::{StreamExt as _, wrappers::ReceiverStream};
use tonic::{Request, Response, Status, async_trait};

use super::{
    Api,
    answer::{internal, reached, service_only},
};
use crate::{delivery::dispatch::Claimed, domain::delivery::Attempt};

/// Most unreported attempts that one worker may ask for.
const MAX_CAPACITY: i32 = 4_096;

fn claim(claimed: Claimed) -> v1::ClaimResponse {
    let delivery = claimed.delivery;
    v1::ClaimResponse {
        attempt: delivery.attempts_made() + 1,
        delivery_id: delivery.id,
        webhook_id: delivery.webhook_id,
        url: claimed.webhook.url.clone(),
        event_id: delivery.event_id,
        event_type: delivery.event_type,
        body: event_json(&claimed.event).into(),
        secrets: vec![claimed.secret],
        livemode: claimed.webhook.live,
        is_test: false,
        replay_of: None,
    }
}

#[async_trait]
impl DeliveryService for Api {
    type ClaimStream = BoxStream<'static, Result<v1::ClaimResponse, Status>>;

    async fn claim(&self, request: Request<v1::ClaimRequest>) -> Result<Response<Self::ClaimStream>, Status> {
        service_only(&self.core, &request)?;
        let capacity = request.into_inner().capacity.clamp(1, MAX_CAPACITY);
        let (place, claims) = self.core.dispatcher.join(usize::try_from(capacity).unwrap_or(1));
        let stop = self.core.stop.clone();
        let stream = ReceiverStream::new(claims).map(move |claimed| {
            // The place is given up when the stream is dropped.
            let _holds = &place;
            Ok(claim(claimed))
        });
        let stopped = async move { stop.cancelled_owned().await };
        let stream = futures::StreamExt::take_until(stream, Box::pin(stopped));
        Ok(Response::new(Box::pin(stream)))
    }

    async fn report(&self, request: Request<v1::ReportRequest>) -> Result<Response<v1::ReportResponse>, Status> {
        service_only(&self.core, &request)?;
        let message = request.into_inner();
        let (response_status, failure) = match message.outcome {
            Some(Reported::Response(response)) => (Some(response.status), None),
            Some(Reported::Failure(failure)) => (None, Some(failure.reason)),
            Some(Reported::Released(_)) => {
                self.core.dispatcher.release_claim(&message.delivery_id);
                return Ok(Response::new(v1::ReportResponse {}));
            }
            None => return Err(Status::invalid_argument("outcome: is required")),
        };
        let attempt = Attempt {
            number: message.attempt,
            started_at: message.started_at.as_ref().map_or_else(|| self.core.shared.clock.now_ms(), to_millis),
            response_status,
            latency_ms: message.latency_ms,
            failure,
        };
        let reported = reached(&self.core, self.core.dispatcher.report(&message.delivery_id, attempt));
        internal(&self.core, "DeliveryService/Report", reported.map_ok(|()| v1::ReportResponse {})).await
    }
}
