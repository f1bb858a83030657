//! Counts the reports of attempts, and disables webhooks that are gone or always fail.
//!
//! A 410 disables the webhook before the attempt is written. A success ends the streak of failures before its attempt
//! is written, and a failure is counted after it, and only by the core that has owned the webhook's attempts since it
//! handed the attempt out. So a crash, a report to another core or a change of owners may count one failure too few.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures::future::{join_all, try_join_all};
use thesis_net::status::{Outcome, count_delivery};
use thesis_proto::v1::WebhookStatus;

use super::{
    Dispatcher,
    state::{KnownAttempt, ReportStart, lane},
};
use crate::{
    control::ControlState,
    delivery::rule::Verdict,
    domain::{
        account::Actor,
        control::{ControlChange, Webhook},
        delivery::{Attempt, Delivery, Status, parse_delivery_id},
    },
    error::{Error, Result},
    metrics::DELIVERIES,
    shared::first_due,
    store::{StoreError, StoreResult},
    tables::{deliveries::DeliveryChange, queue::shard_of},
};

/// Status of an endpoint that is gone for good.
const GONE: i32 = 410;

/// The outcome of a delivery, and its name in metrics.
const fn outcome(status: Status) -> (Outcome, &'static str) {
    match status {
        Status::Delivered => (Outcome::Delivered, "delivered"),
        Status::Failed => (Outcome::Failed, "failed"),
        Status::Pending | Status::Retrying => (Outcome::Retrying, "retrying"),
    }
}

#[derive(Clone, Debug)]
pub struct EndedAttempt {
    pub delivery: String,
    pub attempt: Attempt,
}

/// A report of an attempt that was not counted before: the change, and whether the attempt succeeded.
type Counted = (DeliveryChange, bool);

/// Attempts whose reports one call counts. Dropping this lets other calls count reports of them.
struct CountedAttempts<'a> {
    dispatcher: &'a Dispatcher,
    attempts: Vec<(String, i32)>,
}

impl Drop for CountedAttempts<'_> {
    fn drop(&mut self) {
        let mut state = self.dispatcher.state.lock();
        self.attempts.iter().for_each(|(delivery, number)| state.end_report(delivery, *number));
    }
}

/// True for a success that ends its webhook's streak of failures: tests and replays do not count.
const fn ends_streak((change, succeeded): &Counted) -> bool {
    *succeeded && !change.before.is_requested()
}

impl Dispatcher {
    /// Counts reports. A repeated report, or another worker's report of the same attempt, changes nothing. After an
    /// error, all reports must be repeated.
    pub async fn report(&self, mut reports: Vec<EndedAttempt>) -> Result<()> {
        let now_ms = self.shared.clock.now_ms();
        let mut once = HashSet::new();
        reports.retain(|report| once.insert((report.delivery.clone(), report.attempt.number)));
        let (mut begun, mut is_busy) = (Vec::new(), false);
        {
            let mut state = self.state.lock();
            for report in reports {
                match state.begin_report(&report.delivery, report.attempt.number, now_ms) {
                    ReportStart::Out(attempt) => begun.push((report, Some(attempt))),
                    ReportStart::Unknown => begun.push((report, None)),
                    ReportStart::Busy => is_busy = true,
                }
            }
        }
        let attempts = begun.iter().map(|(report, _)| (report.delivery.clone(), report.attempt.number)).collect();
        let counting = CountedAttempts { dispatcher: self, attempts };
        let counted = self.count(begun, now_ms).await;
        drop(counting);
        self.shared.hints.wake();
        counted?;
        if is_busy {
            // Its worker repeats it, and finds the attempt counted unless the other report failed.
            return Err(StoreError::InDoubt("another report of an attempt is being counted".to_owned()).into());
        }
        Ok(())
    }

    /// Counts attempts, each once, on the known states of their deliveries or on the stored ones.
    async fn count(&self, reports: Vec<(EndedAttempt, Option<KnownAttempt>)>, now_ms: i64) -> Result<()> {
        let mut counted = self.next_states(reports, now_ms).await?;
        let mut failed = self.end_streaks(&mut counted, now_ms).await.err().map(Error::from);
        let (changes, succeeded): (Vec<_>, Vec<_>) = counted.into_iter().unzip();
        let written = self.shared.deliveries.advance(&changes, now_ms).await?;
        let mut noted = Vec::new();
        for ((change, succeeded), written) in changes.into_iter().zip(succeeded).zip(written) {
            match written {
                Ok(()) => {
                    self.settle_attempt(&change, succeeded, now_ms);
                    noted.push((change, succeeded));
                }
                // The worker reports all of them again. Written ones do not count a second time then, so they count
                // now.
                Err(error) => failed = Some(error.into()),
            }
        }
        self.notify_others(&noted);
        // The time after the writes, which may have outlasted the lease. A row of another epoch may not have been kept.
        let later_ms = self.shared.clock.now_ms();
        let mut ends: HashMap<&str, Vec<bool>> = HashMap::new();
        for (change, succeeded) in noted.iter().filter(|(change, _)| !change.before.is_requested()) {
            let webhook = change.before.webhook_id.as_str();
            if self.shards.tenure(shard_of(webhook), later_ms).is_some_and(|tenure| tenure.epoch == change.epoch) {
                ends.entry(webhook).or_default().push(*succeeded);
            }
        }
        join_all(ends.iter().map(|(webhook, succeeded)| self.count_failures(webhook, succeeded, now_ms))).await;
        failed.map_or(Ok(()), Err)
    }

    /// The changes by reports that were not counted before.
    async fn next_states(
        &self,
        reports: Vec<(EndedAttempt, Option<KnownAttempt>)>,
        now_ms: i64,
    ) -> Result<Vec<Counted>> {
        let befores = reports.iter().map(async |(report, known)| match known {
            Some(known) => Result::Ok(Some(((*known.delivery).clone(), known.epoch))),
            None => self.stored(&report.delivery, now_ms).await,
        });
        let befores = try_join_all(befores).await?;
        if self.shared.control.is_shared() && befores.iter().flatten().any(|(before, _)| self.is_live(before)) {
            // Live access may have been withdrawn while an attempt was under way.
            self.shared.control.refresh().await?;
        }
        let mut counted = Vec::new();
        for ((report, known), before) in reports.into_iter().zip(befores) {
            let attempt = report.attempt;
            let is_expected = |before: &Delivery| !before.is_over() && before.attempt_count() + 1 == attempt.number;
            // Otherwise the attempt was counted before, perhaps by a call whose response was lost.
            let Some((before, epoch)) = before.filter(|(before, _)| is_expected(before)) else { continue };
            if attempt.response_status == Some(GONE) {
                // First: once the attempt is written, a repeated report changes nothing.
                self.disable(&before.webhook_id, WebhookStatus::Disabled, now_ms).await?;
            }
            if before.is_test
                && attempt.has_succeeded()
                && let Some(known) = &known
            {
                // This comes first for the same reason.
                self.note_verified(&known.webhook, now_ms).await?;
            }
            let mut after = before.after(attempt, known.map_or(now_ms, |known| known.ended_at));
            let succeeded = after.status() == Status::Delivered;
            if self.is_cancelled(&before, now_ms) {
                // The end of the attempt does not bring the delivery back.
                after = after.cancelled();
            }
            counted.push((DeliveryChange { before, after, epoch }, succeeded));
        }
        Ok(counted)
    }

    /// Ends the streaks of webhooks with a success, before their attempts are written: a process that ends in between
    /// leaves attempts that are made again, but no old streak that the next failures would continue. Removes the
    /// successes of webhooks whose streak cannot be ended. After an error, their attempts must be reported again.
    async fn end_streaks(&self, counted: &mut Vec<Counted>, now_ms: i64) -> StoreResult<()> {
        let successes = counted.iter().filter(|counted| ends_streak(counted));
        let webhooks: HashSet<String> = successes.map(|(change, _)| change.before.webhook_id.clone()).collect();
        let ended = join_all(webhooks.iter().map(|webhook| self.end_streak(webhook, now_ms))).await;
        let mut outcome = Ok(());
        for (webhook, ended) in webhooks.iter().zip(ended) {
            match ended {
                Ok(()) => {}
                // Another report would fail in the same way.
                Err(StoreError::Damaged(why)) => tracing::error!(webhook, why, "a streak of failures cannot be ended"),
                Err(error) => {
                    counted.retain(|counted| !ends_streak(counted) || counted.0.before.webhook_id != *webhook);
                    outcome = Err(error);
                }
            }
        }
        outcome
    }

    /// Reads a stored delivery, and the epoch under which this core may change it: its own if it owns the delivery's
    /// attempts, but never one below the row's, whose change would be lost. None when its row is damaged, since another
    /// report would fail in the same way.
    async fn stored(&self, delivery: &str, now_ms: i64) -> Result<Option<(Delivery, i64)>> {
        // The tenure comes first: a core that loses the shard after the read writes under its old epoch.
        let own = parse_delivery_id(delivery).and_then(|(webhook, _)| self.shards.tenure(shard_of(&webhook), now_ms));
        match self.shared.deliveries.get_with_epoch(delivery).await {
            Err(StoreError::Damaged(why)) => {
                tracing::error!(delivery, why, "an attempt cannot be counted");
                Ok(None)
            }
            stored => Ok(stored?.map(|(stored, epoch)| (stored, own.map_or(epoch, |tenure| tenure.epoch.max(epoch))))),
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
    fn settle_attempt(&self, change: &DeliveryChange, succeeded: bool, now_ms: i64) {
        let (webhook, number): (Arc<str>, _) = (change.before.webhook_id.as_str().into(), change.after.attempt_count());
        let mut state = self.state.lock();
        let was_slow = state.remove_attempt(&change.before.id, number, now_ms).is_some_and(|out| out.is_slow);
        let (outcome, name) = outcome(change.after.status());
        DELIVERIES.of(&[lane(was_slow), name]).increment(1);
        count_delivery(outcome);
        if self.shards.taken_at(shard_of(&webhook)).is_some() {
            state.note_outcome(&webhook, &change.before.id, number, succeeded);
            if let Some(due_at) = change.after.next_attempt_at {
                state.expect(&webhook, due_at, now_ms);
            }
        }
    }

    /// Notifies the cores that hand out these webhooks' attempts of the next due times.
    fn notify_others(&self, counted: &[Counted]) {
        let elsewhere =
            counted.iter().filter(|(change, _)| self.shards.taken_at(shard_of(&change.after.webhook_id)).is_none());
        let next = elsewhere.filter_map(|(change, _)| Some((&*change.after.webhook_id, change.after.next_attempt_at?)));
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
            let streak = self.shared.deliveries.note_outcomes(webhook, &vec![false; failures], now_ms).await?;
            self.streaks.note_failure(webhook);
            if streak.is_hopeless(now_ms) {
                self.disable(webhook, WebhookStatus::DisabledFailing, now_ms).await?;
                // A webhook enabled again begins at zero.
                self.shared.deliveries.note_outcomes(webhook, &[true], now_ms).await?;
            }
            Result::Ok(())
        };
        if let Err(error) = note.await {
            self.streaks.note_failure(webhook);
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
