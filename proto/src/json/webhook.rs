//! Webhooks.

use serde::Serialize;
use utoipa::ToSchema;

use super::{EventType, Time, WebhookStatus, constant, each, part};
use crate::v1;

/// What an event must match: every dimension given, any value within one.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct WebhookFilters<'a> {
    /// `$SYMBOL`, an address, `chain:address` or a `tk_` id.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    token: &'a [String],
    /// Handles of authors and profiles, with or without `@`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    handle: &'a [String],
    /// Chains of tokens, such as `sandbox`.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    chain: &'a [String],
}

impl<'a> From<&'a v1::EventFilters> for WebhookFilters<'a> {
    fn from(filters: &'a v1::EventFilters) -> Self {
        Self { token: &filters.token, handle: &filters.handle, chain: &filters.chain }
    }
}

/// An endpoint that receives events.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct Webhook<'a> {
    #[schema(schema_with = constant::webhook)]
    object: &'static str,
    /// Prefix `wh_`.
    id: &'a str,
    /// Where events are sent, as it was given.
    #[schema(format = "uri")]
    url: &'a str,
    /// What people call it.
    #[schema(required)]
    description: Option<&'a str>,
    /// Types of events that it gets.
    events: Vec<EventType>,
    /// What an event must match besides.
    filters: WebhookFilters<'a>,
    /// Whether it gets events.
    status: WebhookStatus,
    /// The first characters of the signing secret, for display.
    secret_prefix: &'a str,
    /// True for live data, false for test data.
    livemode: bool,
    /// When it was created.
    #[schema(value_type = String, format = DateTime)]
    created_at: Time,
    /// When it was last changed.
    #[schema(value_type = String, format = DateTime)]
    updated_at: Time,
}

impl<'a> From<&'a v1::Webhook> for Webhook<'a> {
    fn from(webhook: &'a v1::Webhook) -> Self {
        Self {
            object: "webhook",
            id: &webhook.id,
            url: &webhook.url,
            description: webhook.description.as_deref(),
            events: each(&webhook.events),
            filters: part(&webhook.filters),
            status: WebhookStatus::from(&webhook.status),
            secret_prefix: &webhook.secret_prefix,
            livemode: webhook.livemode,
            created_at: part(&webhook.created_at),
            updated_at: part(&webhook.updated_at),
        }
    }
}

/// A webhook with its signing secret, which is told only when it is made.
#[derive(Serialize, ToSchema)]
pub struct WebhookWithSecret<'a> {
    #[serde(flatten)]
    webhook: Webhook<'a>,
    /// The signing secret, prefix `whsec_`. Keep it: it is not told again.
    secret: &'a str,
}

impl<'a> From<&'a v1::CreateWebhookResponse> for WebhookWithSecret<'a> {
    fn from(response: &'a v1::CreateWebhookResponse) -> Self {
        Self { webhook: part(&response.webhook), secret: &response.secret }
    }
}

impl<'a> From<&'a v1::RotateWebhookSecretResponse> for WebhookWithSecret<'a> {
    fn from(response: &'a v1::RotateWebhookSecretResponse) -> Self {
        Self { webhook: part(&response.webhook), secret: &response.secret }
    }
}

/// What remains of a deleted webhook.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedWebhook<'a> {
    #[schema(schema_with = constant::webhook)]
    object: &'static str,
    /// Id of the webhook that is no more.
    id: &'a str,
    #[schema(schema_with = constant::always_true)]
    deleted: bool,
}

impl<'a> From<&'a v1::DeleteWebhookResponse> for DeletedWebhook<'a> {
    fn from(response: &'a v1::DeleteWebhookResponse) -> Self {
        Self { object: "webhook", id: &response.id, deleted: true }
    }
}
