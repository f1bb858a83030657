//! The public status.

use http::{HeaderValue, StatusCode, header::CACHE_CONTROL};
use thesis_proto::{json, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    route::Route,
};

/// Core's answer may be a second old already.
const BRIEFLY: HeaderValue = HeaderValue::from_static("public, max-age=1");

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::open("/v1/status", "StatusService/GetStatus", |edge, call| Box::pin(status(edge, call)))
            .named("getStatus", "Service", "Tells how the service is doing.")
            .about(
                "The state of each role and its processes, and figures of the last 30 minutes from the service's own \
                 histograms: the latency of requests by rate class, from an event until a live stream or an endpoint \
                 has it, the outcomes of deliveries, and the lag of the feed. Each latency is within 1 % of the \
                 measured value. A process that falls silent is `stalled` within ten seconds. It needs no key, and is \
                 limited to 600 requests a minute and address, with the reads of the log. The same is shown at \
                 `/status`.",
            )
            .answers::<json::ServiceStatus<'_>>(200),
    ]
}

async fn status(edge: &Context, call: &Call) -> Answer {
    let request = call.request(v1::GetStatusRequest {});
    let (metadata, answer, _) = edge.core.status.get_status(request).await?.into_parts();
    let status = answer.status.ok_or_else(Failure::incomplete)?;
    let mut response = json(StatusCode::OK, &metadata, &json::ServiceStatus::from(&status))?;
    response.headers_mut().insert(CACHE_CONTROL, BRIEFLY);
    Ok(response)
}
