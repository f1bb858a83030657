//! Hands out due attempts to workers and takes their reports.
//!
//! A core hands out the attempts of the shards whose lease it holds. New deliveries from fan-out go from memory to a
//! worker. The dispatcher reads all others from the queues: rows of a shard that it takes over, retries that are due,
//! deliveries that had no room in memory or that may have been sent before, and rows of new marks, which it reads each
//! minute. A report of the expected attempt counts, whichever worker sends it, and to whichever core. The header of
//! `tables/deliveries.rs` says why no core overwrites what another one counted.

mod endpoint;
mod health;
mod queue_metrics;
mod read;
mod report;
mod secrets;
mod settled;
mod shards;
mod state;
mod streaks;
mod timers;
mod unsendable;
mod verification;

#[cfg(test)]
use std::collections::BTreeSet;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use quick_cache::sync::Cache;
use thesis_net::services::ATTEMPTS_A_PLACE;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

pub use self::report::EndedAttempt;
use self::{
    read::MarkProgress,
    secrets::AttemptSecrets,
    shards::Shards,
    state::{State, Worker, due_at},
    streaks::Streaks,
    unsendable::{ErasureReads, Unsendable},
};
use super::rule::{DeliveryRule, Verdict};
use crate::{
    domain::{control::Webhook, delivery::Delivery, plan::Plans, window::CLOCK_SKEW_MS},
    error::Result,
    queue_hints::PendingDelivery,
    replicas::members::Members,
    shared::Shared,
    tables::{deliveries::DeliveryChange, queue::shard_of},
};

/// Interval between two checks of timers, the slow lane and late attempts.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time within which a worker reports an attempt, in milliseconds. Later the attempt is handed out again.
const CLAIM_MS: i64 = 15_000;
/// Time for reports after the worker's stream has ended, in milliseconds. Attempts under way end and are reported in
/// it.
const ORPHAN_MS: i64 = 8_000;
/// Maximum number of queues that are read at the same time.
const MAX_READS: usize = 16;
/// Maximum number of events that the dispatcher keeps as JSON for their next attempts.
const MAX_BODIES: usize = 2_000;

/// An attempt that a worker shall make.
#[derive(Debug)]
pub struct ClaimedAttempt {
    /// The delivery as it is before the attempt.
    pub delivery: Arc<Delivery>,
    pub webhook: Arc<Webhook>,
    /// The whole event.
    pub body: Bytes,
    pub secrets: AttemptSecrets,
}

pub struct Dispatcher {
    shared: Arc<Shared>,
    shards: Shards,
    /// Each with the newest erasure of its log that was known before the event was read.
    bodies: Cache<(String, u64), (Bytes, u64)>,
    erasure_reads: ErasureReads,
    next_worker: AtomicU64,
    state: Mutex<State>,
    streaks: Streaks,
    plans: Plans,
    /// True while the notifications of every other core arrive.
    all_connected: watch::Receiver<bool>,
}

/// The registration of a connected worker. Dropping it removes the worker.
pub struct WorkerPlace {
    dispatcher: Arc<Dispatcher>,
    id: u64,
}

impl Drop for WorkerPlace {
    fn drop(&mut self) {
        let until = self.dispatcher.shared.clock.now_ms() + ORPHAN_MS;
        let mut state = self.dispatcher.state.lock();
        state.workers.remove(&self.id);
        for out in state.outs().filter(|out| out.worker == self.id) {
            out.until = out.until.min(until);
        }
        drop(state);
        self.dispatcher.shared.hints.wake();
    }
}

impl Dispatcher {
    pub fn new(
        shared: Arc<Shared>,
        members: Arc<Members>,
        plans: Plans,
        all_connected: watch::Receiver<bool>,
    ) -> Arc<Self> {
        Arc::new(Self {
            plans,
            all_connected,
            shards: Shards::new(Arc::clone(&shared), members),
            shared,
            bodies: Cache::new(MAX_BODIES),
            erasure_reads: ErasureReads::default(),
            next_worker: AtomicU64::new(1),
            state: Mutex::default(),
            streaks: Streaks::default(),
        })
    }

    /// Adds a worker. It receives claims until its place is dropped: at most `capacity` unreported ones that are not
    /// late, and at most twice as many in all.
    pub fn join(self: &Arc<Self>, capacity: usize) -> (WorkerPlace, mpsc::Receiver<ClaimedAttempt>) {
        let (claims, receiver) = mpsc::channel(ATTEMPTS_A_PLACE * capacity.max(1));
        let id = self.next_worker.fetch_add(1, Ordering::Relaxed);
        self.state.lock().workers.insert(id, Worker { claims, capacity, out: 0, late: 0 });
        self.shards.set_has_workers(true);
        self.shared.hints.wake();
        (WorkerPlace { dispatcher: Arc::clone(self), id }, receiver)
    }

    /// Takes back an attempt that the worker did not make.
    pub fn release_claim(&self, delivery_id: &str, attempt: i32) {
        let now_ms = self.shared.clock.now_ms();
        self.state.lock().give_back(delivery_id, attempt, now_ms);
        self.shared.hints.wake();
    }

    /// Gives up all shards. Returns false if attempts are out and other cores learn of them only by the heartbeats of
    /// this core.
    pub async fn release(&self) -> bool {
        self.shards.release_all(self.shared.clock.now_ms(), |shard| self.is_out(shard)).await
    }

    /// The shards whose attempts this core may hand out now.
    #[cfg(test)]
    pub fn served_shards(&self) -> BTreeSet<i64> {
        let now_ms = self.shared.clock.now_ms();
        self.shards.held().into_keys().filter(|shard| self.shards.serves(*shard, now_ms)).collect()
    }

    /// Takes and gives up shards until stopped. It runs apart from the work.
    pub async fn keep_shards(self: Arc<Self>, stop: CancellationToken) {
        stop.run_until_cancelled(self.shards.keep_leases(|shard| self.is_out(shard))).await;
    }

    fn is_out(&self, shard: i64) -> bool {
        self.state.lock().outs().any(|out| shard_of(&out.webhook) == shard)
    }

    /// Hands out attempts until stopped.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut every = tokio::time::interval(POLL_INTERVAL);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut reads = JoinSet::new();
        let mut progress = MarkProgress::new(self.all_connected.clone());
        let mut read_failed = false;
        loop {
            let is_tick = tokio::select! {
                () = stop.cancelled() => return,
                () = self.shared.hints.changed() => false,
                Some(_) = reads.join_next() => false,
                _ = every.tick() => true,
            };
            let now_ms = self.shared.clock.now_ms();
            self.apply_hints(now_ms);
            let has_workers = !self.state.lock().workers.is_empty();
            self.shards.set_has_workers(has_workers);
            if !self.shared.control.is_current() {
                // Live access may be withdrawn.
                continue;
            }
            if is_tick && let Err(error) = self.check_time(&mut progress, now_ms).await {
                tracing::warn!(%error, "looking for due webhook attempts failed, trying again");
            }
            let unsendable = self.hand_out_ready(is_tick, &mut read_failed, now_ms).await;
            if !unsendable.is_empty()
                && let Err(error) = self.fail(unsendable, now_ms).await
            {
                tracing::warn!(%error, "noting that attempts cannot be sent failed, trying again");
            }
            while reads.len() < MAX_READS {
                let Some((webhook, part)) = self.state.lock().next_read() else { break };
                reads.spawn(Arc::clone(&self).read_queue(webhook, part));
            }
        }
    }

    /// Applies the hints about new deliveries of this core, and about queues with rows to read.
    fn apply_hints(&self, now_ms: i64) {
        let hints = self.shared.hints.take_pending();
        if hints.deliveries.is_empty() && hints.queues.is_empty() {
            return;
        }
        let skew_ms = if self.shared.backend.is_exclusive() { 0 } else { CLOCK_SKEW_MS };
        let mut state = self.state.lock();
        for pending in hints.deliveries {
            let Some(due_at) = pending.delivery.next_attempt_at else { continue };
            let webhook = &pending.delivery.webhook_id;
            let shard = shard_of(webhook);
            match self.shards.tenure(shard, now_ms) {
                // Only this core can have sent a delivery that was created since then, by the clock of any core.
                Some(tenure) if pending.delivery.created_at >= tenure.taken_at + skew_ms => {
                    state.add_ready(PendingDelivery { epoch: tenure.epoch, ..pending }, now_ms);
                }
                _ if self.shards.taken_at(shard).is_some() => state.expect(&webhook.as_str().into(), due_at, now_ms),
                _ => {}
            }
        }
        for (webhook, due_at) in hints.queues {
            if self.shards.taken_at(shard_of(&webhook)).is_some() {
                self.shared.deliveries.queue.note_foreign(&webhook, due_at);
                state.expect(&webhook.into(), due_at, now_ms);
            }
        }
    }

    /// Handles late attempts, due timers and webhooks that no longer wait; then reads marks.
    async fn check_time(&self, progress: &mut MarkProgress, now_ms: i64) -> Result<()> {
        {
            let mut state = self.state.lock();
            let late: Vec<Arc<Delivery>> =
                state.outs().filter(|out| out.until <= now_ms).map(|out| Arc::clone(&out.delivery)).collect();
            for delivery in late {
                state.give_back(&delivery.id, delivery.attempt_count() + 1, now_ms);
            }
            state.note_late(now_ms);
            state.read_due(now_ms);
            let waiting: Vec<_> = state.waiting().cloned().collect();
            for webhook in waiting {
                let waits = |(_, rule): (_, DeliveryRule)| rule.waits();
                if self.shards.serves(shard_of(&webhook), now_ms)
                    && !self.find_rule(&webhook, now_ms).is_some_and(waits)
                {
                    state.resume(&webhook);
                }
            }
        }
        self.check_marks(progress, now_ms).await?;
        self.read_marks_of_others(progress, now_ms).await
    }

    /// Hands out ready deliveries until the workers are full. Returns the ones that cannot be sent.
    async fn hand_out(&self, is_tick: bool, now_ms: i64) -> Vec<(PendingDelivery, Unsendable)> {
        let mut unsendable = Vec::new();
        let mut refreshed = !self.shared.control.is_shared();
        let slow = if is_tick { self.state.lock().slow_round(now_ms) } else { Vec::new() };
        let mut slow = slow.into_iter();
        loop {
            let next = slow.next().or_else(|| {
                let mut state = self.state.lock();
                if state.room() == 0 { None } else { state.next_healthy(now_ms) }
            });
            let Some(mut pending) = next else { return unsendable };
            let mut rule = self.find_rule(&pending.delivery.webhook_id, now_ms);
            if !refreshed && rule.as_ref().is_some_and(|(webhook, _)| webhook.live) {
                // Its live access may have been withdrawn just now.
                self.shared.control.try_refresh().await;
                refreshed = true;
                rule = self.find_rule(&pending.delivery.webhook_id, now_ms);
            }
            match rule.map(|(webhook, rule)| (webhook, rule.verdict(&pending.delivery))) {
                Some((webhook, Verdict::Send)) => {
                    let secrets = self.prepare(&mut pending, &webhook, now_ms).await;
                    // The present time, since a round may take long. The core that serves the shard next, which may be
                    // this one, takes it over and reads this attempt again.
                    let (shard, now) = (shard_of(&webhook.id), self.shared.clock.now_ms());
                    let epoch = self.shards.tenure(shard, now).map(|tenure| tenure.epoch);
                    if !self.shards.serves(shard, now) {
                        continue;
                    }
                    if epoch != Some(pending.epoch) {
                        // It may have kept the delivery of the present epoch out of memory.
                        self.read_again(&pending.delivery);
                        continue;
                    }
                    let continues = match secrets {
                        Ok(Ok(secrets)) => self.send(pending, webhook, secrets, now),
                        Ok(Err(why)) => {
                            unsendable.push((pending, why));
                            true
                        }
                        Err(_) => {
                            // The store may fail for the other deliveries too, and each would wait for it.
                            self.read_again(&pending.delivery);
                            false
                        }
                    };
                    if !continues {
                        let mut state = self.state.lock();
                        slow.for_each(|pending| state.put_back(pending, now_ms));
                        return unsendable;
                    }
                }
                Some((webhook, Verdict::Wait)) => {
                    self.state.lock().add_waiting(&webhook.id.as_str().into(), due_at(&pending.delivery));
                }
                // The reader of its queue reads control first, and then cancels it.
                Some((_, Verdict::Cancel)) | None => self.read_again(&pending.delivery),
            }
        }
    }

    /// Requests a read of a delivery that cannot be sent as it is in memory.
    fn read_again(&self, delivery: &Delivery) {
        self.state.lock().read_from(&delivery.webhook_id.as_str().into(), due_at(delivery));
    }

    /// Sends an attempt to the worker with the fewest attempts out. Returns false when no worker has room.
    fn send(&self, pending: PendingDelivery, webhook: Arc<Webhook>, secrets: AttemptSecrets, now_ms: i64) -> bool {
        let mut state = self.state.lock();
        let PendingDelivery { delivery, body, erasure, epoch } = pending;
        let delivery = Arc::new(delivery);
        let settings = Arc::clone(&webhook);
        let claimed = ClaimedAttempt { delivery: Arc::clone(&delivery), webhook, body, secrets };
        let sent = match state.least_loaded() {
            Some((id, worker)) => {
                worker.claims.try_send(claimed).map(|()| id).map_err(mpsc::error::TrySendError::into_inner)
            }
            None => Err(claimed),
        };
        match sent {
            Ok(worker) => {
                state.send(worker, delivery, settings, epoch, (now_ms, now_ms + CLAIM_MS));
                true
            }
            Err(ClaimedAttempt { body, .. }) => {
                let delivery = Arc::unwrap_or_clone(delivery);
                state.put_back(PendingDelivery { delivery, body, erasure, epoch }, now_ms);
                false
            }
        }
    }

    /// Counts attempts that cannot be sent as failed.
    async fn fail(&self, attempts: Vec<(PendingDelivery, Unsendable)>, now_ms: i64) -> Result<()> {
        let mut changes = Vec::with_capacity(attempts.len());
        for (PendingDelivery { delivery: before, epoch, .. }, why) in attempts {
            let after = unsendable::failed(&before, &why, now_ms);
            changes.push(DeliveryChange { before, after, epoch });
        }
        let mut outcome = Ok(());
        let advanced = self.shared.deliveries.advance(&changes, now_ms).await.unwrap_or_else(|error| {
            outcome = Err(error.into());
            Vec::new()
        });
        let mut advanced = advanced.into_iter();
        let mut state = self.state.lock();
        for DeliveryChange { before, after, .. } in changes {
            let webhook: Arc<str> = before.webhook_id.as_str().into();
            match advanced.next() {
                Some(Ok(())) => {
                    if let Some(due_at) = after.next_attempt_at {
                        state.expect(&webhook, due_at, now_ms);
                    }
                    continue;
                }
                Some(Err(error)) => outcome = Err(error.into()),
                None => {}
            }
            state.read_from(&webhook, due_at(&before));
        }
        outcome
    }
}

#[cfg(test)]
mod tests;
