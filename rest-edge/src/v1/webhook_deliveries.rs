//! Deliveries to webhooks: their logs, tests and replays, and how they go.

use std::mem::take;

use http::StatusCode;
use thesis_proto::{error::ErrorCode, json, names, v1};

use super::webhooks;
use crate::{
    answer::{Answer, Failure, json},
    call::Call,
    context::Context,
    input::{Kind, Param, enum_texts},
    route::{Route, route},
};

const LIST: &[Param] = &[
    Param::LIMIT,
    Param::CURSOR,
    Param::new("status", Kind::OneOf(|| enum_texts(names::DELIVERY_STATUSES)), "Only those in this state"),
    Param::new("event_type", Kind::OneOf(|| enum_texts(names::EVENT_TYPES)), "Only those of this type"),
    Param::new("event_id", Kind::Text(1, 64), "Only those of this event"),
];

/// The statuses of deliveries that can be sent again.
fn final_statuses() -> Vec<&'static str> {
    vec!["failed", "delivered"]
}

const REPLAY: &[Param] = &[
    Param::required("since", Kind::Time, "Only deliveries created since then; not in the future"),
    Param::new("status", Kind::OneOf(final_statuses), "Which deliveries; `failed` unless given"),
];

/// How the deliveries of a webhook go, and the replay of many.
pub(super) fn overall_routes() -> Vec<Route> {
    vec![
        route!(GET, "/v1/webhooks/{id}/insight", "WebhookService/GetWebhookInsight", insight)
            .named(
                "getWebhookInsight",
                webhooks::TAG,
                "Shows how a webhook's deliveries go, and how far its last replay is.",
            )
            .about(
                "Success rate, latency and attempts of the last hour and day, counted in slots of five minutes by the \
                 time at which an attempt began, and the oldest delivery that is `pending` or `retrying`. Attempts of \
                 tests and replays count too. Counts may be ten seconds old. `awaits_verification` is true while \
                 deliveries wait until a test send was answered with 2xx, which some plans demand of new \
                 organizations. `replay` is the last replay of many deliveries.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookNotFound])
            .path_parameter(webhooks::ID)
            .answers::<json::WebhookInsight<'_>>(200),
        route!(POST, "/v1/webhooks/{id}/replay", "WebhookService/StartWebhookReplay", replay_many)
            .named(
                "startWebhookReplay",
                webhooks::TAG,
                "Begins to send all deliveries since a time again that failed, or that were delivered.",
            )
            .about(
                "Makes a new delivery of each one that was created since `since`, before this request, and ended with \
                 `status`: newest first, 50 a second, each with the same event id and six attempts of its own, \
                 whatever the webhook's status. Tests and replays are not sent again. `replay` of the webhook's \
                 insight shows how far it is. It counts as one of the 10 test sends and replays a minute and project. \
                 While another one of the webhook runs, the answer is 409 `DELIVERY_IN_PROGRESS`.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookNotFound, ErrorCode::DeliveryInProgress])
            .path_parameter(webhooks::ID)
            .body("StartWebhookReplay", REPLAY)
            .answers::<json::WebhookReplay<'_>>(202),
    ]
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        route!(POST, "/v1/webhooks/{id}/test", "WebhookService/TestWebhook", test)
            .named(
                "testWebhook",
                webhooks::TAG,
                "Sends one `thesis.created` event with `test` true, whatever the webhook's events, filters and status.",
            )
            .about(
                "Queues one `thesis.created` event with `test` true, for this webhook alone, whatever its events, \
                 filters and status. The event is in no log. Test sends and replays together are limited to 10 a \
                 minute and project.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookNotFound])
            .path_parameter(webhooks::ID)
            .empty_body()
            .answers::<json::WebhookDelivery<'_>>(202),
        route!(POST, "/v1/webhook-deliveries/{id}/replay", "WebhookService/ReplayDelivery", replay)
            .named(
                "replayDelivery",
                webhooks::TAG,
                "Sends a delivery that is over again, as a new one with the same event id. It has six attempts of its own.",
            )
            .about(
                "Makes a new delivery with the same event id and six attempts of its own, whatever the webhook's \
                 status. Its attempts carry `Service-Replay: true` and name the original in `Service-Replay-Of`. \
                 A delivery that is `pending` or `retrying` is 409 `DELIVERY_IN_PROGRESS`. Test sends and replays \
                 together are limited to 10 a minute and project.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::DeliveryNotFound, ErrorCode::DeliveryInProgress])
            .path_parameter("The delivery, `del_…`")
            .empty_body()
            .answers::<json::WebhookDelivery<'_>>(202),
        route!(GET, "/v1/webhooks/{id}/deliveries", "WebhookService/ListDeliveries", list)
            .named(
                "listDeliveries",
                webhooks::TAG,
                "Lists a webhook's deliveries, newest first. A page may be short while `has_more` is true.",
            )
            .about(
                "Newest first; deliveries are kept for 90 days. `limit` rows make a page; pass `next_cursor` as \
                 `cursor`, with the same filters, for the next one, until `has_more` is false. A page may hold \
                 fewer rows than `limit` while `has_more` is true.",
            )
            .needs(Some("webhooks:write"), "standard")
            .fails(&[ErrorCode::WebhookNotFound])
            .path_parameter(webhooks::ID)
            .query(LIST)
            .answers::<json::WebhookDeliveryList<'_>>(200),
    ]
}

async fn test(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    call.add_unread(call.fields()?.unread());
    let request = v1::TestWebhookRequest { id };
    let (metadata, answer, _) = edge.core.webhooks.test_webhook(call.request(request)).await?.into_parts();
    let delivery = answer.delivery.ok_or_else(Failure::incomplete)?;
    json(StatusCode::ACCEPTED, &metadata, &json::WebhookDelivery::from(&delivery))
}

async fn replay(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    call.add_unread(call.fields()?.unread());
    let request = v1::ReplayDeliveryRequest { id, now: false };
    let (metadata, answer, _) = edge.core.webhooks.replay_delivery(call.request(request)).await?.into_parts();
    let delivery = answer.delivery.ok_or_else(Failure::incomplete)?;
    json(StatusCode::ACCEPTED, &metadata, &json::WebhookDelivery::from(&delivery))
}

async fn insight(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let request = v1::GetWebhookInsightRequest { id };
    let (metadata, answer, _) = edge.core.webhooks.get_webhook_insight(call.request(request)).await?.into_parts();
    let insight = answer.insight.ok_or_else(Failure::incomplete)?;
    json(StatusCode::OK, &metadata, &json::WebhookInsight::from(&insight))
}

async fn replay_many(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let mut fields = call.fields()?;
    let request = v1::StartWebhookReplayRequest {
        id,
        since: fields.time("since"),
        status: fields.one_of("status", names::parse_delivery_status, final_statuses).unwrap_or_default(),
    };
    call.add_unread(fields.unread());
    let (metadata, answer, _) = edge.core.webhooks.start_webhook_replay(call.request(request)).await?.into_parts();
    let replay = answer.replay.ok_or_else(Failure::incomplete)?;
    json(StatusCode::ACCEPTED, &metadata, &json::WebhookReplay::from(&replay))
}

async fn list(edge: &Context, call: &mut Call) -> Answer {
    let id = take(&mut call.id);
    let mut query = call.query()?;
    let request = v1::ListDeliveriesRequest {
        id,
        limit: query.integer("limit"),
        cursor: query.text("cursor"),
        status: query.one_of("status", names::parse_delivery_status).unwrap_or_default().into(),
        event_type: query.one_of("event_type", names::parse_event_type).unwrap_or_default().into(),
        event_id: query.text("event_id"),
        ..v1::ListDeliveriesRequest::default()
    };
    call.add_unread(query.unread());
    let (metadata, page, _) = edge.core.webhooks.list_deliveries(call.request(request)).await?.into_parts();
    json(StatusCode::OK, &metadata, &json::WebhookDeliveryList::from(&page))
}
