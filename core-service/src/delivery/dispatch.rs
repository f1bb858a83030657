//! Hands out due attempts to workers and takes their reports.
//!
//! A core hands out the attempts of the shards whose lease it holds. What fan-out has just made goes from memory to a
//! worker. Everything else is read from the queues: the rows that a core finds when it takes a shard over, retries when
//! their timer fires, rows for which memory had no room, and rows of new marks, which are read each minute. Leases only
//! save duplicate work: a report of the expected attempt counts, whoever sends it.

mod endpoint;
mod health;
mod queue_figures;
mod read;
mod report;
mod settled;
mod shards;
mod state;
mod timers;
mod unsendable;

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

pub use self::{queue_figures::QueueFigures, report::Reported, state::LaneFigures};
use self::{
    read::Pages,
    shards::Shards,
    state::{State, Worker, due_at},
    unsendable::Unsendable,
};
use super::serving::{Serving, Verdict};
use crate::{
    domain::{control::Webhook, delivery::Delivery},
    error::Result,
    replicas::members::Members,
    shared::{Shared, queue_hints::Made},
    tables::{deliveries::Step, queue::shard_of},
};

/// How often timers, the slow lane and late attempts are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest wait for a report; then the attempt is handed out again.
const CLAIM_MS: i64 = 15_000;
/// The same after its worker's stream has ended: attempts under way end and are reported within this time.
const ORPHAN_MS: i64 = 8_000;
/// Most queues read at once.
const READS: usize = 16;
/// Most events that are kept as JSON for their next attempts.
const BODIES: usize = 2_000;

/// An attempt to be made.
#[derive(Debug)]
pub struct Claimed {
    /// The delivery as it is before the attempt.
    pub delivery: Arc<Delivery>,
    /// The webhook it goes to.
    pub webhook: Arc<Webhook>,
    /// The event as JSON.
    pub body: Bytes,
    /// The secrets that sign it, the newest first.
    pub secrets: Vec<String>,
}

/// Hands out due attempts.
pub struct Dispatcher {
    shared: Arc<Shared>,
    shards: Shards,
    bodies: Cache<(String, u64), Bytes>,
    next_worker: AtomicU64,
    state: Mutex<State>,
    streaks: report::Streaks,
    /// Whether the news of every other core are heard.
    all_heard: watch::Receiver<bool>,
}

/// A worker's place; given up when dropped.
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
    /// A dispatcher of this replica.
    #[must_use]
    pub fn new(shared: Arc<Shared>, members: Arc<Members>, all_heard: watch::Receiver<bool>) -> Arc<Self> {
        Arc::new(Self {
            all_heard,
            shards: Shards::new(Arc::clone(&shared), members),
            shared,
            bodies: Cache::new(BODIES),
            next_worker: AtomicU64::new(1),
            state: Mutex::default(),
            streaks: report::Streaks::default(),
        })
    }

    /// Takes a worker's stream: it gets claims until the place is dropped, at most `capacity` unreported that are not
    /// late, and twice as many in all.
    pub fn join(self: &Arc<Self>, capacity: usize) -> (WorkerPlace, mpsc::Receiver<Claimed>) {
        let (claims, receiver) = mpsc::channel(ATTEMPTS_A_PLACE * capacity.max(1));
        let id = self.next_worker.fetch_add(1, Ordering::Relaxed);
        self.state.lock().workers.insert(id, Worker { claims, capacity, out: 0, late: 0 });
        self.shards.has_workers(true);
        self.shared.hints.wake();
        (WorkerPlace { dispatcher: Arc::clone(self), id }, receiver)
    }

    /// Takes back an attempt that was not made.
    pub fn release_claim(&self, delivery_id: &str, attempt: i32) {
        let now_ms = self.shared.clock.now_ms();
        self.state.lock().give_back(delivery_id, attempt, now_ms);
        self.shared.hints.wake();
    }

    /// Gives up all shards.
    pub async fn release(&self) {
        self.shards.release_all(self.shared.clock.now_ms(), |shard| self.is_out(shard)).await;
    }

    /// Takes shards and renews their leases, apart from the work, until stopped.
    pub async fn keep_shards(self: Arc<Self>, stop: CancellationToken) {
        stop.run_until_cancelled(self.shards.keep(|shard| self.is_out(shard))).await;
    }

    fn is_out(&self, shard: i64) -> bool {
        self.state.lock().outs().any(|out| shard_of(&out.webhook) == shard)
    }

    /// Hands out attempts until stopped.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut reads = JoinSet::new();
        let mut pages = Pages::new(self.all_heard.clone());
        loop {
            let looks = tokio::select! {
                () = stop.cancelled() => return,
                () = self.shared.hints.changed() => false,
                Some(_) = reads.join_next() => false,
                _ = every.tick() => true,
            };
            let now_ms = self.shared.clock.now_ms();
            self.hear(now_ms);
            let has_workers = !self.state.lock().workers.is_empty();
            self.shards.has_workers(has_workers);
            if !self.shared.control.is_current() {
                // Live access may be withdrawn.
                continue;
            }
            if looks && let Err(error) = self.look(&mut pages, now_ms).await {
                tracing::warn!(%error, "looking for due webhook attempts failed, trying again");
            }
            let unsendable = self.hand_out(looks, now_ms).await;
            if !unsendable.is_empty()
                && let Err(error) = self.fail(unsendable, now_ms).await
            {
                tracing::warn!(%error, "noting that attempts cannot be sent failed, trying again");
            }
            while reads.len() < READS {
                let Some((webhook, place)) = self.state.lock().next_read() else { break };
                reads.spawn(Arc::clone(&self).read_queue(webhook, place));
            }
        }
    }

    /// Takes in what was just made here, and what other cores told.
    fn hear(&self, now_ms: i64) {
        let news = self.shared.hints.take();
        if news.made.is_empty() && news.queues.is_empty() {
            return;
        }
        let mut state = self.state.lock();
        for made in news.made {
            let Some(due_at) = made.delivery.next_attempt_at else { continue };
            let webhook = &made.delivery.webhook_id;
            match self.shards.taken_at(shard_of(webhook)) {
                // Only this core can have sent what was made since.
                Some(taken_at) if made.delivery.created_at >= taken_at => state.add(made, now_ms),
                Some(_) => state.expect(&webhook.as_str().into(), due_at, now_ms),
                None => {}
            }
        }
        for (webhook, due_at) in news.queues {
            if self.shards.taken_at(shard_of(&webhook)).is_some() {
                state.expect(&webhook.into(), due_at, now_ms);
            }
        }
    }

    /// Looks at everything that time brings.
    async fn look(&self, pages: &mut Pages, now_ms: i64) -> Result<()> {
        {
            let mut state = self.state.lock();
            let late: Vec<Arc<Delivery>> =
                state.outs().filter(|out| out.until <= now_ms).map(|out| Arc::clone(&out.delivery)).collect();
            for delivery in late {
                state.give_back(&delivery.id, delivery.attempts_made() + 1, now_ms);
            }
            state.note_late(now_ms);
            state.read_due(now_ms);
            let waiting: Vec<_> = state.waiting().cloned().collect();
            for webhook in waiting {
                let waits = |(_, serving): (_, Serving)| serving.waits();
                if self.shards.serves(shard_of(&webhook), now_ms) && !self.serving(&webhook, now_ms).is_some_and(waits)
                {
                    state.wait_no_more(&webhook);
                }
            }
        }
        self.look_at_marks(pages, now_ms).await?;
        self.look_for_unheard(pages, now_ms).await
    }

    /// A webhook and what becomes of its deliveries; none if it is deleted, or not known here yet.
    fn serving(&self, webhook: &str, now_ms: i64) -> Option<(Arc<Webhook>, Serving)> {
        let state = self.shared.control.state();
        let webhook = state.webhook(webhook)?;
        Some((Arc::clone(webhook), Serving::of(&state, webhook, now_ms)))
    }

    /// Hands out what is ready, until the workers are full. Gives what cannot be sent.
    async fn hand_out(&self, looks: bool, now_ms: i64) -> Vec<(Made, Unsendable)> {
        let mut unsendable = Vec::new();
        let mut refreshed = !self.shared.control.is_shared();
        let slow = if looks { self.state.lock().slow_round(now_ms) } else { Vec::new() };
        let mut slow = slow.into_iter();
        loop {
            let made = match slow.next() {
                Some(made) => made,
                None => {
                    let mut state = self.state.lock();
                    if state.room() == 0 {
                        return unsendable;
                    }
                    let Some(made) = state.next(now_ms) else { return unsendable };
                    made
                }
            };
            let mut serving = self.serving(&made.delivery.webhook_id, now_ms);
            if !refreshed && serving.as_ref().is_some_and(|(webhook, _)| webhook.live) {
                // Its live access may have been withdrawn just now.
                self.shared.control.look().await;
                refreshed = true;
                serving = self.serving(&made.delivery.webhook_id, now_ms);
            }
            match serving.map(|(webhook, serving)| (webhook, serving.verdict(&made.delivery))) {
                Some((webhook, Verdict::Send)) => {
                    // The present time, since a round may take long. The core that serves the shard next, which may be
                    // this one, takes it over and reads this attempt again.
                    if !self.shards.serves(shard_of(&webhook.id), self.shared.clock.now_ms()) {
                        continue;
                    }
                    match self.secrets(&webhook, now_ms) {
                        Ok(secrets) => {
                            if !self.send(made, webhook, secrets, now_ms) {
                                let mut state = self.state.lock();
                                slow.for_each(|made| state.put_back(made, now_ms));
                                return unsendable;
                            }
                        }
                        Err(why) => unsendable.push((made, why)),
                    }
                }
                Some((webhook, Verdict::Wait)) => {
                    self.state.lock().wait(&webhook.id.as_str().into(), due_at(&made.delivery));
                }
                // The reader of its queue reads control first, and then cancels it.
                Some((_, Verdict::Cancel)) | None => {
                    self.state.lock().read_from(&made.delivery.webhook_id.as_str().into(), due_at(&made.delivery));
                }
            }
        }
    }

    /// Gives an attempt to the worker with the fewest out; false when none has room.
    fn send(&self, made: Made, webhook: Arc<Webhook>, secrets: Vec<String>, now_ms: i64) -> bool {
        let mut state = self.state.lock();
        let delivery = Arc::new(made.delivery);
        let claimed = Claimed { delivery: Arc::clone(&delivery), webhook, body: made.body, secrets };
        let sent = match state.freest() {
            Some((id, worker)) => {
                worker.claims.try_send(claimed).map(|()| id).map_err(mpsc::error::TrySendError::into_inner)
            }
            None => Err(claimed),
        };
        match sent {
            Ok(worker) => {
                state.send(worker, delivery, now_ms, now_ms + CLAIM_MS);
                true
            }
            Err(Claimed { body, .. }) => {
                state.put_back(Made { delivery: Arc::unwrap_or_clone(delivery), body }, now_ms);
                false
            }
        }
    }

    /// Counts attempts that cannot be sent as failed.
    async fn fail(&self, attempts: Vec<(Made, Unsendable)>, now_ms: i64) -> Result<()> {
        let mut steps = Vec::with_capacity(attempts.len());
        for (Made { delivery: before, .. }, why) in attempts {
            let after = unsendable::failed(&before, &why, now_ms);
            steps.push(Step { before, after });
        }
        let mut outcome = Ok(());
        let advanced = self.shared.deliveries.advance(&steps, now_ms).await.unwrap_or_else(|error| {
            outcome = Err(error.into());
            Vec::new()
        });
        let mut advanced = advanced.into_iter();
        let mut state = self.state.lock();
        for Step { before, after } in steps {
            let webhook: Arc<str> = before.webhook_id.as_str().into();
            match advanced.next() {
                Some(Ok(_)) => {
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
