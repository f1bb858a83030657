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
    /// Requests of this month.
    month: MonthUsage,
    /// Requests of this minute, by rate class.
    rates: RateUsages,
    /// Streams that are open.
    streams: StreamUsage,
    /// Webhooks that exist.
    webhooks: WebhookUsage,
    /// True for live data, false for test data.
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
    /// Start of the month, in UTC.
    #[schema(value_type = String, format = DateTime)]
    start: Time,
    /// Start of the next month.
    #[schema(value_type = String, format = DateTime)]
    end: Time,
    /// Requests that the plan allows in a month.
    limit: i64,
    /// Requests counted so far.
    used: i64,
    /// Requests left.
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
    /// All other operations.
    standard: RateUsage,
    /// Profiles, wallets and search.
    heavy: RateUsage,
    /// Verification.
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
    /// Requests that the plan allows in a minute.
    limit: i64,
    /// Requests left in this minute.
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
    /// Streams that the plan allows at once.
    limit: i64,
    /// Streams open now.
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
    /// Webhooks that the plan allows.
    limit: i64,
    /// Webhooks that exist now.
    used: i64,
}

impl From<&v1::WebhookUsage> for WebhookUsage {
    fn from(webhooks: &v1::WebhookUsage) -> Self {
        Self { limit: webhooks.limit, used: webhooks.used }
    }
}
