//! Use of everything that a plan limits.

use serde::Serialize;
use utoipa::ToSchema;

use super::{Time, constant, part};
use crate::v1;

/// Use of everything that a plan limits.
#[derive(Debug, Serialize, ToSchema)]
pub struct Usage {
    #[schema(schema_with = constant::usage)]
    object: &'static str,
    month: MonthUsage,
    rates: RateUsages,
    streams: StreamUsage,
    webhooks: WebhookUsage,
    livemode: bool,
}

impl From<&v1::Usage> for Usage {
    fn from(usage: &v1::Usage) -> Self {
        Self {
            object: "usage",
            month: part(&usage.month),
            rates: part(&usage.rates),
            streams: part(&usage.streams),
            webhooks: part(&usage.webhooks),
            livemode: usage.livemode,
        }
    }
}

/// The month's quota of the organization.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct MonthUsage {
    #[schema(value_type = String, format = DateTime)]
    start: Time,
    #[schema(value_type = String, format = DateTime)]
    end: Time,
    limit: i64,
    used: i64,
    remaining: i64,
}

impl From<&v1::MonthUsage> for MonthUsage {
    fn from(month: &v1::MonthUsage) -> Self {
        Self {
            start: part(&month.start),
            end: part(&month.end),
            limit: month.limit,
            used: month.used,
            remaining: month.remaining,
        }
    }
}

/// The rate windows by class.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct RateUsages {
    standard: RateUsage,
    heavy: RateUsage,
    verify: RateUsage,
}

impl From<&v1::RateUsages> for RateUsages {
    fn from(rates: &v1::RateUsages) -> Self {
        Self { standard: part(&rates.standard), heavy: part(&rates.heavy), verify: part(&rates.verify) }
    }
}

/// One rate window of the project and environment.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct RateUsage {
    limit: i64,
    remaining: i64,
    /// Unix seconds at which the window ends.
    reset: i64,
}

impl From<&v1::RateUsage> for RateUsage {
    fn from(rate: &v1::RateUsage) -> Self {
        Self { limit: rate.limit, remaining: rate.remaining, reset: rate.reset }
    }
}

/// Concurrent streams of the project.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct StreamUsage {
    limit: i64,
    open: i64,
}

impl From<&v1::StreamUsage> for StreamUsage {
    fn from(streams: &v1::StreamUsage) -> Self {
        Self { limit: streams.limit, open: streams.open }
    }
}

/// Webhooks of the project and environment.
#[derive(Debug, Default, Serialize, ToSchema)]
pub struct WebhookUsage {
    limit: i64,
    used: i64,
}

impl From<&v1::WebhookUsage> for WebhookUsage {
    fn from(webhooks: &v1::WebhookUsage) -> Self {
        Self { limit: webhooks.limit, used: webhooks.used }
    }
}
