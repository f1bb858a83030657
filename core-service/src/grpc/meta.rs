//! `MetaService`.

use thesis_proto::{
    time::from_millis,
    v1::{self, meta_service_server::MetaService},
};
use tonic::{Request, Response, Status, async_trait};

use super::{Api, answer::answer};
use crate::{
    access::{gate::Call, limits::Month},
    convert,
    domain::operation::{Operation, RateClass},
    error::Result as Outcome,
};

#[async_trait]
impl MetaService for Api {
    async fn get_me(&self, request: Request<v1::GetMeRequest>) -> Result<Response<v1::GetMeResponse>, Status> {
        answer(&self.core, Operation::GetMe, request, |call, _| async move {
            call.charge().await?;
            let caller = &call.caller;
            let key = convert::control::key_info(&caller.key, &caller.project, &caller.organization);
            Ok(v1::GetMeResponse { key: Some(key) })
        })
        .await
    }

    async fn get_usage(&self, request: Request<v1::GetUsageRequest>) -> Result<Response<v1::GetUsageResponse>, Status> {
        answer(&self.core, Operation::GetUsage, request, |call, _| async move {
            call.charge().await?;
            Ok(v1::GetUsageResponse { usage: Some(self.usage(&call).await?) })
        })
        .await
    }
}

fn signed(count: impl TryInto<i64>) -> i64 {
    count.try_into().unwrap_or(i64::MAX)
}

impl Api {
    async fn usage(&self, call: &Call) -> Outcome<v1::Usage> {
        let (caller, plan) = (&call.caller, &call.caller.plan);
        let Month { start, end, .. } = Month::of(call.now_ms);
        let limits = &self.core.gate.limits;
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
            self.core.slots.open(&caller.project.id),
        );
        self.core.shared.control.refresh().await?;
        let webhooks = self.core.shared.control.state().webhooks(&caller.project.id, caller.key.live).count();
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
}
