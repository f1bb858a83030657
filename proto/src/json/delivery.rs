//! Webhook deliveries.

use serde::Serialize;
use utoipa::ToSchema;

use super::{DeliveryStatus, EventType, Time, constant, part};
use crate::v1;

/// One event on its way to one webhook.
#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookDelivery<'a> {
    #[schema(schema_with = constant::webhook_delivery)]
    object: &'static str,
    /// Prefix `del_`.
    id: &'a str,
    webhook_id: &'a str,
    event_id: &'a str,
    event_type: EventType,
    status: DeliveryStatus,
    attempt: i32,
    max_attempts: i32,
    #[schema(required)]
    response_status: Option<i32>,
    #[schema(required)]
    latency_ms: Option<i32>,
    #[schema(required, value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Time>,
    is_replay: bool,
    is_test: bool,
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    #[schema(required, value_type = Option<String>, format = DateTime)]
    delivered_at: Option<Time>,
}

impl<'a> From<&'a v1::WebhookDelivery> for WebhookDelivery<'a> {
    fn from(delivery: &'a v1::WebhookDelivery) -> Self {
        Self {
            object: "webhook_delivery",
            id: &delivery.id,
            webhook_id: &delivery.webhook_id,
            event_id: &delivery.event_id,
            event_type: EventType::from(&delivery.event_type),
            status: DeliveryStatus::from(&delivery.status),
            attempt: delivery.attempt,
            max_attempts: delivery.max_attempts,
            response_status: delivery.response_status,
            latency_ms: delivery.latency_ms,
            next_attempt_at: delivery.next_attempt_at.as_ref().map(Time::from),
            is_replay: delivery.is_replay,
            is_test: delivery.is_test,
            created_at: part(&delivery.created_at),
            delivered_at: delivery.delivered_at.as_ref().map(Time::from),
        }
    }
}
