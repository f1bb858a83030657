//! Reads how the deliveries of a webhook of the caller's project and environment go: the attempts of the last hour and
//! day, the oldest delivery that waits, and the last replay of many. Fails with `WEBHOOK_NOT_FOUND`.

use thesis_proto::{time::from_millis, v1};

use super::get_webhook::read_webhook;
use crate::{
    access::gate::Call,
    convert,
    delivery::rule::DeliveryRule,
    domain::{delivery::Delivery, window::HOUR_MS},
    error::Result,
    service::Core,
    store::Consistency,
    tables::{deliveries::AttemptTotals, webhook_replays},
};

pub async fn get_webhook_insight(
    core: &Core,
    call: &Call,
    message: v1::GetWebhookInsightRequest,
) -> Result<v1::GetWebhookInsightResponse> {
    call.charge().await?;
    let webhook = read_webhook(core, &call.caller, &message.id).await?;
    let (deliveries, now_ms) = (&core.shared.deliveries, call.now_ms);
    let rule = DeliveryRule::of(&core.shared.control.state(), &webhook, now_ms);
    let awaits_verification = core.dispatcher.awaits_verification(&webhook, now_ms);
    let (computed_at, totals) = deliveries.recent_totals(&webhook.id, now_ms).await?;
    // Deliveries may have waited since the change that made them wait. A delivery may be older than that.
    let waits_since = if awaits_verification {
        Some(webhook.created_at)
    } else if rule.waits() {
        Some(webhook.disabled_at.map_or(webhook.updated_at, |at| at.min(webhook.updated_at)) - HOUR_MS)
    } else {
        None
    };
    let counted = |delivery: Delivery| rule.counted(delivery);
    let oldest = deliveries.oldest_pending(&webhook.id, &totals, waits_since, now_ms, counted).await?;
    let replay = webhook_replays::read(&core.shared.backend, &webhook.id, Consistency::Quorum).await?;
    let [of_hour, of_day] = AttemptTotals::begins(computed_at);
    let insight = v1::WebhookInsight {
        last_hour: Some(convert::delivery::attempts(&totals.hour, of_hour)),
        last_day: Some(convert::delivery::attempts(&totals.day, of_day)),
        oldest_pending_at: oldest.map(from_millis),
        awaits_verification,
        replay: replay
            .and_then(|(_, replay)| replay)
            .map(|replay| convert::delivery::webhook_replay(&webhook.id, &replay)),
        livemode: webhook.live,
        computed_at: Some(from_millis(computed_at)),
        hours: totals.by_hour(computed_at).map(|(begin, counts)| convert::delivery::attempts(counts, begin)).collect(),
        old_secret_until: webhook
            .old_secret
            .as_ref()
            .map(|_| webhook.old_secret_until)
            .filter(|until| now_ms < *until)
            .map(from_millis),
        webhook_id: webhook.id.clone(),
    };
    Ok(v1::GetWebhookInsightResponse { insight: Some(insight) })
}
