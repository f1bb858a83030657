//! Takes the reports of attempts, and gives up webhooks that are gone or fail all the time.

use thesis_proto::v1::WebhookStatus;

use super::Dispatcher;
use crate::{
    delivery::serving::Serving,
    domain::{
        control::{ControlChange, Webhook},
        delivery::{Attempt, Delivery, Status},
    },
    error::Result,
    shared::control::ControlState,
};

/// The answer of an endpoint that is gone for good.
const GONE: i32 = 410;

impl Dispatcher {
    /// Takes a report. A repeat of it, or of another worker's report, changes nothing.
    ///
    /// # Errors
    /// When the store does not answer; the report must be repeated then.
    pub async fn report(&self, delivery_id: &str, attempt: Attempt) -> Result<()> {
        let now_ms = self.shared.clock.now_ms();
        if let Some(before) = self.shared.deliveries.get(delivery_id).await?
            && !before.is_over()
            && before.attempts_made() + 1 == attempt.number
        {
            let webhook = &before.webhook_id;
            if attempt.response_status == Some(GONE) {
                // First: once the attempt is written, a repeated report changes nothing.
                self.disable(webhook, WebhookStatus::Disabled, now_ms).await?;
            }
            let mut after = before.after(attempt, now_ms);
            let succeeded = after.status() == Status::Delivered;
            if self.was_cancelled(&before).await? {
                after = after.cancelled();
            }
            // If another replica handed the attempt out, that one takes its row out of the queue.
            let queued_at = self.state.lock().out.get(delivery_id).map(|out| out.queued_at);
            if self.shared.deliveries.advance(&before, &after, queued_at, now_ms).await? {
                self.note(webhook, succeeded, now_ms).await;
            }
        }
        self.release_claim(delivery_id);
        Ok(())
    }

    /// Whether live access was withdrawn while an attempt was under way: its end does not bring the delivery back.
    async fn was_cancelled(&self, delivery: &Delivery) -> Result<bool> {
        let webhook =
            |state: &ControlState| state.webhook(&delivery.webhook_id).filter(|webhook| webhook.live).cloned();
        if webhook(&self.shared.control.state()).is_some() {
            self.shared.control.refresh().await?;
        }
        let state = self.shared.control.state();
        Ok(webhook(&state)
            .is_some_and(|webhook| !delivery.is_over() && Serving::of(&state, &webhook).cancels(delivery.created_at)))
    }

    /// Counts consecutive failures. The attempt itself is written already, so a failure to count it is only logged.
    async fn note(&self, webhook: &str, succeeded: bool, now_ms: i64) {
        let note = async {
            let streak = self.shared.deliveries.note(webhook, succeeded, now_ms).await?;
            if streak.is_hopeless(now_ms) {
                self.disable(webhook, WebhookStatus::DisabledFailing, now_ms).await?;
                // A webhook enabled again begins at zero.
                self.shared.deliveries.note(webhook, true, now_ms).await?;
            }
            Result::Ok(())
        };
        if let Err(error) = note.await {
            tracing::warn!(webhook, %error, "counting how attempts end failed");
        }
    }

    /// Gives an enabled webhook another status.
    async fn disable(&self, id: &str, status: WebhookStatus, now_ms: i64) -> Result<()> {
        let disable = |state: &ControlState| {
            let enabled = |webhook: &&std::sync::Arc<Webhook>| webhook.status == i32::from(WebhookStatus::Enabled);
            let change = state.webhook(id).filter(enabled).map(|webhook| {
                let changed = Webhook { status: status.into(), updated_at: now_ms, ..Webhook::clone(webhook) };
                ControlChange::Webhook(changed)
            });
            Ok((change.into_iter().collect(), ()))
        };
        self.shared.control.change(disable).await
    }
}
