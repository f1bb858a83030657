//! `DeliveryService`: due attempts for delivery workers.

use futures::TryFutureExt as _;
use std::sync::Arc;

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
use crate::{
    convert,
    domain::delivery::Attempt,
    service::{
        core::Core,
        dispatch::Claimed,
        error::{Error, Result as Outcome},
        webhooks::signing_secret,
    },
};

/// Unreported attempts that one worker may ask for.
const MAX_CAPACITY: i32 = 4_096;

fn claim(core: &Core, claimed: &Claimed) -> Outcome<v1::ClaimResponse> {
    let event = convert::entry::event(&claimed.dataset, &claimed.entry);
    let event = event.ok_or_else(|| Error::internal("a delivery of an entry that is no event"))?;
    let delivery = &claimed.delivery;
    Ok(v1::ClaimResponse {
        delivery_id: delivery.id.clone(),
        webhook_id: delivery.webhook_id.clone(),
        url: claimed.webhook.url.clone(),
        attempt: delivery.attempts_made() + 1,
        event_id: delivery.event_id.clone(),
        event_type: delivery.event_type,
        body: event_json(&event).into(),
        secrets: vec![signing_secret(core, &claimed.webhook)?],
        livemode: claimed.webhook.live,
        is_test: false,
        replay_of: None,
    })
}

#[async_trait]
impl DeliveryService for Api {
    type ClaimStream = BoxStream<'static, Result<v1::ClaimResponse, Status>>;

    async fn claim(&self, request: Request<v1::ClaimRequest>) -> Result<Response<Self::ClaimStream>, Status> {
        service_only(&self.core, &request)?;
        let capacity = request.into_inner().capacity.clamp(1, MAX_CAPACITY);
        let (place, claims) = self.core.dispatcher.join(usize::try_from(capacity).unwrap_or(1));
        let core = Arc::clone(&self.core);
        let stop = self.core.stop.clone();
        let stream = ReceiverStream::new(claims).filter_map(move |claimed| {
            // The place is given up when the stream is dropped.
            let _holds = &place;
            match claim(&core, &claimed) {
                Ok(response) => Some(Ok(response)),
                Err(error) => {
                    tracing::error!(delivery = claimed.delivery.id, %error, "an attempt cannot be handed out");
                    None
                }
            }
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
