//! Reads the usage of the caller's project, in the environment of the key.

use thesis_proto::{time::from_millis, v1};

use crate::{
    access::{gate::Call, limits::Month},
    domain::{control::Project, operation::RateClass, plan::Plan},
    error::Result,
    service::Core,
};

fn signed(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

pub async fn get_usage(core: &Core, call: &Call, _message: v1::GetUsageRequest) -> Result<v1::GetUsageResponse> {
    call.charge().await?;
    let caller = &call.caller;
    let usage = usage(core, &caller.project, caller.plan, caller.key.live, call.now_ms).await?;
    Ok(v1::GetUsageResponse { usage: Some(usage) })
}

/// Reads how much of its monthly quota, rate limits, streams and webhooks a project with a plan has used.
pub async fn usage(core: &Core, project: &Project, plan: Plan, live: bool, now_ms: i64) -> Result<v1::Usage> {
    let Month { start, end, .. } = Month::of(now_ms);
    let limits = &core.gate.limits;
    let Project { id: project_id, organization_id, .. } = project;
    let project = &project_id.as_str().into();
    let rate = async |class: RateClass| {
        let limit = plan.per_minute(class);
        let rate = limits.rates.fresh(project, live, class, limit, now_ms).await;
        Some(v1::RateUsage { limit: rate.limit.into(), remaining: rate.remaining.into(), reset: rate.reset })
    };
    let (used, standard, heavy, verify, open) = tokio::join!(
        limits.quota.used(organization_id, now_ms),
        rate(RateClass::Standard),
        rate(RateClass::Heavy),
        rate(RateClass::Verify),
        core.slots.open(project_id),
    );
    core.shared.control.refresh().await?;
    let webhooks = core.shared.control.state().webhooks(project_id, live).count();
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
        livemode: live,
    })
}
