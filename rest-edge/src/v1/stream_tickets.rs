//! Tickets for browsers, which cannot set headers where they open a stream.

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, v1};

use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    route::{Route, route},
};

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(POST, "/v1/stream/tickets", "EventService/CreateStreamTicket", create)
            .named("createStreamTicket", "Streams", "Makes a ticket with which a browser opens one stream.")
            .about(
                "For browsers, whose `EventSource` and `WebSocket` cannot set headers: open a stream with \
                 `?ticket=` within 60 seconds. The stream may be reopened with the same ticket, one connection at \
                 a time, until it has been away for 5 minutes. A ticket carries the key's rights and ends with \
                 the key.",
            )
            .needs(Some("streams:read"), "standard")
            .fails(&[ErrorCode::FeatureDisabled])
            .empty_body()
            .answers::<json::StreamTicket<'_>>(201),
    ]
}

async fn create(edge: &Context, call: &Call) -> Answer {
    call.add_unread(call.fields()?.unread());
    let request = v1::CreateStreamTicketRequest {};
    let (metadata, answer, _) = edge.core.events.create_stream_ticket(call.request(request)).await?.into_parts();
    let ticket = answer.stream_ticket.ok_or_else(Failure::incomplete)?;
    json(StatusCode::CREATED, &metadata, &json::StreamTicket::from(&ticket))
}
