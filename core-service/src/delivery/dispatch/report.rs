//! Counts the reports of attempts, and disables webhooks that are gone or always fail.
//!
//! A 410 disables the webhook before the attempt is written. A success ends the streak of failures before its attempt
//! is written, and a failure is counted after it. So a crash may count one failure too few, never one too many.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::future::{join_all, try_join_all};
use quick_cache::sync::Cache;
use thesis_proto::v1::WebhookStatus;

use super::{Dispatcher, state::lane};
use crate::{
    control::ControlState,
    delivery::rule::Verdict,
    domain::{
        account::Actor,
        control::{ControlChange, Webhook},
        delivery::{Attempt, Delivery, Status},
    },
    error::{Error, Result},
    metrics::DELIVERIES,
    shared::first_due,
    store::{StoreError, StoreResult},
    tables::{deliveries::DeliveryChange, queue::shard_of},
};

/// Status of an endpoint that is gone for good.
const GONE: i32 = 410;
/// Time for which this core trusts that a webhook has no streak of failures, in milliseconds. Another core may count
/// a failure later.
const KNOWN_MS: i64 = 60_000;
/// Maximum number of webhooks that are known to have no streak.
const MAX_STREAKS: usize = 100_000;

/// Webhooks without a streak of failures, and the time since which this is known; none until it is stored.
pub(super) struct Streaks {
    none: Cache<Arc<str>, Option<i64>>,
}

impl Default for Streaks {
    fn default() -> Self {
        Self { none: Cache::new(MAX_STREAKS) }
    }
}

/// The outcome of a delivery, as metrics name it.
const fn outcome(status: Status) -> &'static str {
    match status {
        Status::Delivered => "delivered",
        Status::Failed => "failed",
        Status::Pending | Status::Retrying => "retrying",
    }
}

#[derive(Clone, Debug)]
pub struct EndedAttempt {
    pub delivery: String,
    pub attempt: Attempt,
}

/// A report of an attempt that was not counted before.
struct Counted {
    report: EndedAttempt,
    /// True when the delivery's state came from memory.
    was_known: bool,
    succeeded: bool,
}

/// True for a success that ends its webhook's streak of failures: tests and replays do not count.
const fn ends_streak((counted, step): &(Counted, DeliveryChange)) -> bool {
    counted.succeeded && !step.before.is_requested()
}

impl Dispatcher {
    /// Counts reports. A repeated report, or another worker's report of the same attempt, changes nothing. After an
    /// error, all reports must be repeated.
    pub async fn report(&self, mut reports: Vec<EndedAttempt>) -> Result<()> {
        let now_ms = self.shared.clock.now_ms();
        let mut once = HashSet::new();
        reports.retain(|report| once.insert((report.delivery.clone(), report.attempt.number)));
        let known: Vec<(EndedAttempt, Option<Arc<Delivery>>)> = {
            let state = self.state.lock();
            let with_known = |report: EndedAttempt| {
                let out = state.out(&report.delivery, report.attempt.number);
                let known = out.map(|out| Arc::clone(&out.delivery));
                (report, known)
            };
            reports.into_iter().map(with_known).collect()
        };
        let lost = self.count(known, now_ms).await?;
        if !lost.is_empty() {
            // Another report came first, or this core knew an older state.
            let again = lost.into_iter().map(|report| (report, None)).collect();
            self.count(again, now_ms).await?;
        }
        self.shared.hints.wake();
        Ok(())
    }

    /// Counts attempts, each once, on the known states of their deliveries or on the stored ones. Returns the reports
    /// whose known state was not the stored one.
    async fn count(
        &self,
        reports: Vec<(EndedAttempt, Option<Arc<Delivery>>)>,
        now_ms: i64,
    ) -> Result<Vec<EndedAttempt>> {
        let mut counted = self.next_states(reports, now_ms).await?;
        let mut failed = self.end_streaks(&mut counted, now_ms).await.err().map(Error::from);
        let (counted, steps): (Vec<_>, Vec<_>) = counted.into_iter().unzip();
        let written = self.shared.deliveries.advance(&steps, now_ms).await?;
        let (mut lost, mut noted) = (Vec::new(), Vec::new());
        for ((Counted { report, was_known, succeeded }, step), written) in counted.into_iter().zip(steps).zip(written) {
            match written {
                Ok(true) => {
                    self.settle_attempt(&step, succeeded, now_ms);
                    noted.push((step, succeeded));
                }
                Ok(false) if was_known => lost.push(report),
                Ok(false) => {
                    if let Err(error) = self.settle_counted(&report, now_ms).await {
                        failed = Some(error);
                    }
                }
                // The worker reports all of them again. Written ones do not count a second time then, so they count
                // now.
                Err(error) => failed = Some(error.into()),
            }
        }
        self.notify_others(&noted);
        let mut ends: HashMap<&str, Vec<bool>> = HashMap::new();
        for (step, succeeded) in noted.iter().filter(|(step, _)| !step.before.is_requested()) {
            ends.entry(&step.before.webhook_id).or_default().push(*succeeded);
        }
        join_all(ends.iter().map(|(webhook, succeeded)| self.count_failures(webhook, succeeded, now_ms))).await;
        failed.map_or(Ok(lost), Err)
    }

    /// The reports that were not counted before, each with its delivery's state before and after the attempt.
    async fn next_states(
        &self,
        reports: Vec<(EndedAttempt, Option<Arc<Delivery>>)>,
        now_ms: i64,
    ) -> Result<Vec<(Counted, DeliveryChange)>> {
        let befores = reports.iter().map(async |(report, known)| match known {
            Some(delivery) => Result::Ok(Some((**delivery).clone())),
            None => self.stored(&report.delivery).await,
        });
        let befores = try_join_all(befores).await?;
        if self.shared.control.is_shared() && befores.iter().flatten().any(|before| self.is_live(before)) {
            // Live access may have been withdrawn while an attempt was under way.
            self.shared.control.refresh().await?;
        }
        let mut counted = Vec::new();
        for ((report, known), before) in reports.into_iter().zip(befores) {
            let attempt = &report.attempt;
            let before = before.filter(|before| !before.is_over() && before.attempt_count() + 1 == attempt.number);
            let Some(before) = before else {
                // The attempt was counted before, perhaps by a call whose response was lost.
                self.settle_counted(&report, now_ms).await?;
                continue;
            };
            if attempt.response_status == Some(GONE) {
                // First: once the attempt is written, a repeated report changes nothing.
                self.disable(&before.webhook_id, WebhookStatus::Disabled, now_ms).await?;
            }
            let mut after = before.after(attempt.clone(), now_ms);
            let succeeded = after.status() == Status::Delivered;
            if self.is_cancelled(&before, now_ms) {
                // The end of the attempt does not bring the delivery back.
                after = after.cancelled();
            }
            counted.push((Counted { report, was_known: known.is_some(), succeeded }, DeliveryChange { before, after }));
        }
        Ok(counted)
    }

    /// Ends the streaks of webhooks with a success, before their attempts are written: a process that ends in between
    /// leaves attempts that are made again, but no old streak that the next failures would continue. Removes the
    /// successes of webhooks whose streak cannot be ended. After an error, their attempts must be reported again.
    async fn end_streaks(&self, counted: &mut Vec<(Counted, DeliveryChange)>, now_ms: i64) -> StoreResult<()> {
        let successes = counted.iter().filter(|counted| ends_streak(counted));
        let webhooks: HashSet<String> = successes.map(|(_, step)| step.before.webhook_id.clone()).collect();
        let ended = join_all(webhooks.iter().map(|webhook| self.end_streak(webhook, now_ms))).await;
        let mut outcome = Ok(());
        for (webhook, ended) in webhooks.iter().zip(ended) {
            match ended {
                Ok(()) => {}
                // Another report would fail in the same way.
                Err(StoreError::Damaged(why)) => tracing::error!(webhook, why, "a streak of failures cannot be ended"),
                Err(error) => {
                    counted.retain(|counted| !ends_streak(counted) || counted.1.before.webhook_id != *webhook);
                    outcome = Err(error);
                }
            }
        }
        outcome
    }

    async fn end_streak(&self, webhook: &str, now_ms: i64) -> StoreResult<()> {
        if self.streaks.none.get(webhook).flatten().is_some_and(|since| now_ms - since < KNOWN_MS) {
            return Ok(());
        }
        // This comes before the write: a failure that is written later must find the entry and remove it.
        self.streaks.none.insert(webhook.into(), None);
        if let Err(error) = self.shared.deliveries.note(webhook, &[true], now_ms).await {
            self.streaks.none.remove(webhook);
            return Err(error);
        }
        // If a failure has removed the entry in the meantime, the streak is not known.
        drop(self.streaks.none.replace(webhook.into(), Some(now_ms), false));
        Ok(())
    }

    /// Reads a stored delivery; none when its row is damaged, since another report would fail in the same way.
    async fn stored(&self, delivery: &str) -> Result<Option<Delivery>> {
        match self.shared.deliveries.get(delivery).await {
            Err(StoreError::Damaged(why)) => {
                tracing::error!(delivery, why, "an attempt cannot be counted");
                Ok(None)
            }
            stored => Ok(stored?),
        }
    }

    fn is_live(&self, delivery: &Delivery) -> bool {
        self.shared.control.state().webhook(&delivery.webhook_id).is_some_and(|webhook| webhook.live)
    }

    /// True if withdrawn access cancelled a delivery while its attempt was under way.
    fn is_cancelled(&self, delivery: &Delivery, now_ms: i64) -> bool {
        let rule = self.find_rule(&delivery.webhook_id, now_ms);
        rule.is_some_and(|(_, rule)| rule.verdict(delivery) == Verdict::Cancel)
    }

    /// Removes a counted attempt from memory, and notes when the next one is due.
    fn settle_attempt(&self, step: &DeliveryChange, succeeded: bool, now_ms: i64) {
        let (webhook, number): (Arc<str>, _) = (step.before.webhook_id.as_str().into(), step.after.attempt_count());
        let mut state = self.state.lock();
        let was_slow = state.remove_attempt(&step.before.id, number, now_ms).is_some_and(|out| out.is_slow);
        DELIVERIES.of(&[lane(was_slow), outcome(step.after.status())]).increment(1);
        if self.shards.taken_at(shard_of(&webhook)).is_some() {
            state.note_outcome(&webhook, &step.before.id, number, succeeded);
            if let Some(due_at) = step.after.next_attempt_at {
                state.expect(&webhook, due_at, now_ms);
            }
        }
    }

    /// Removes an attempt that was counted before from memory. The next read of its queue removes its row. A later
    /// attempt of the delivery that is under way stays in memory.
    async fn settle_counted(&self, report: &EndedAttempt, now_ms: i64) -> Result<()> {
        let out = self.state.lock().give_back(&report.delivery, report.attempt.number, now_ms);
        if let Some(out) = out
            && let Some(stored) = self.stored(&report.delivery).await?
            && let Some(due_at) = stored.next_attempt_at
        {
            self.state.lock().expect(&out.webhook, due_at, now_ms);
        }
        Ok(())
    }

    /// Notifies the cores that hand out these webhooks' attempts of the next due times.
    fn notify_others(&self, steps: &[(DeliveryChange, bool)]) {
        let elsewhere =
            steps.iter().filter(|(step, _)| self.shards.taken_at(shard_of(&step.after.webhook_id)).is_none());
        let next = elsewhere.filter_map(|(step, _)| Some((&*step.after.webhook_id, step.after.next_attempt_at?)));
        self.shared.notifications.queues_changed(&first_due(next));
    }

    /// Counts the failures since the last success, which has ended the streak before it. The attempts themselves are
    /// written already, so a failure to count them is only logged.
    async fn count_failures(&self, webhook: &str, succeeded: &[bool], now_ms: i64) {
        let failures = succeeded.iter().rev().take_while(|succeeded| !**succeeded).count();
        if failures == 0 {
            return;
        }
        let note = async {
            let streak = self.shared.deliveries.note(webhook, &vec![false; failures], now_ms).await?;
            self.streaks.none.remove(webhook);
            if streak.is_hopeless(now_ms) {
                self.disable(webhook, WebhookStatus::DisabledFailing, now_ms).await?;
                // A webhook enabled again begins at zero.
                self.shared.deliveries.note(webhook, &[true], now_ms).await?;
            }
            Result::Ok(())
        };
        if let Err(error) = note.await {
            self.streaks.none.remove(webhook);
            tracing::warn!(webhook, %error, "counting how attempts end failed");
        }
    }

    /// Gives an enabled webhook another status.
    async fn disable(&self, id: &str, status: WebhookStatus, now_ms: i64) -> Result<()> {
        let disable = |state: &ControlState| {
            let change = state.webhook(id).filter(|webhook| webhook.is_enabled()).map(|webhook| {
                let mut changed = Webhook { updated_at: webhook.next_update(now_ms), ..Webhook::clone(webhook) };
                changed.set_status(status.into(), now_ms);
                ControlChange::Webhook(changed)
            });
            Ok((change.into_iter().collect(), ()))
        };
        self.shared.control.change(Actor::service().does("webhook.disabled"), disable).await
    }
}
