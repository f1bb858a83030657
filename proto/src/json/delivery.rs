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
    /// The webhook that it goes to.
    webhook_id: &'a str,
    /// The event that it carries.
    event_id: &'a str,
    /// Type of that event.
    event_type: EventType,
    /// How far it is.
    status: DeliveryStatus,
    /// Attempts made so far.
    attempt: i32,
    /// Most attempts that are made: 6.
    max_attempts: i32,
    /// HTTP status of the last attempt's answer; null without an answer.
    #[schema(required)]
    response_status: Option<i32>,
    /// Milliseconds that the last attempt took; null before the first.
    #[schema(required)]
    latency_ms: Option<i32>,
    /// When the next attempt is due; null when none is.
    #[schema(required, value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Time>,
    /// Whether it repeats a delivery that was over.
    is_replay: bool,
    /// Whether it is a test send, or the replay of one.
    is_test: bool,
    /// When its event was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When an attempt was answered with 2xx; null until then.
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
