//! Reads how much of its plan a project has used.

use thesis_proto::{time::from_millis, v1};

use super::Core;
use crate::{
    access::{gate::Call, limits::Month},
    domain::operation::RateClass,
    error::Result,
};

fn signed(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

/// Reads how much a project has used of its month's quota, rate limits, stream places and webhooks.
///
/// # Errors
/// When the store does not answer.
pub async fn get_usage(core: &Core, call: &Call) -> Result<v1::Usage> {
    let (caller, plan) = (&call.caller, &call.caller.plan);
    let Month { start, end, .. } = Month::of(call.now_ms);
    let limits = &core.gate.limits;
    let project = &caller.project.id.as_str().into();
    let rate = async |class: RateClass| {
        let limit = plan.per_minute(class);
        let rate = limits.rates.fresh(project, caller.key.live, class, limit, call.now_ms).await;
        Some(v1::RateUsage { limit: rate.limit.into(), remaining: rate.remaining.into(), reset: rate.reset })
    };
    let (used, standard, heavy, verify, open) = tokio::join!(
        limits.quota.used(&caller.organization.id, call.now_ms),
        rate(RateClass::Standard),
        rate(RateClass::Heavy),
        rate(RateClass::Verify),
        core.slots.open(&caller.project.id),
    );
    core.shared.control.refresh().await?;
    let webhooks = core.shared.control.state().webhooks(&caller.project.id, caller.key.live).count();
    Ok(v1::Usage {
        month: Some(v1::MonthUsage {
            start: Some(from_millis(start)),
            end: Some(from_millis(end)),
            limit: signed(plan.requests_per_month),
            used: signed(used),
            remaining: signed(plan.requests_per_month.saturating_sub(used)),
        }),
        rates: Some(v1::RateUsages { standard, heavy, verify }),
        streams: Some(v1::StreamUsage { limit: plan.concurrent_streams.into(), open: open?.into() }),
        webhooks: Some(v1::WebhookUsage { limit: plan.webhook_endpoints.into(), used: signed(webhooks) }),
        livemode: caller.key.live,
    })
}
