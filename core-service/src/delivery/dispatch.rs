//! Hands out due attempts to workers and takes their reports.
//!
//! A replica hands out the attempts of the shards whose lease it holds, and holds leases only while workers are
//! connected to it. Leases only save duplicate work: a report of the expected attempt counts, whoever sends it.

mod leases;
mod minutes;
mod report;
mod state;
mod unsendable;

use std::{
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use thesis_proto::v1;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::{
    leases::Leases,
    minutes::LATE_MINUTES,
    state::{Out, State, Worker},
};
use super::serving::Serving;
use crate::{
    domain::{control::Webhook, delivery::Delivery},
    error::{Error, Result},
    shared::Shared,
    tables::deliveries::{Queued, first_of, minute_of, shard_of},
};

/// How often the ready minutes are read without a hint.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Longest wait for a report; then the attempt is handed out again.
const CLAIM_MS: i64 = 15_000;
/// The same after its worker's stream has ended: attempts under way end and are reported within this time.
const ORPHAN_MS: i64 = 8_000;

/// An attempt to be made.
#[derive(Debug)]
pub struct Claimed {
    /// The delivery as it is before the attempt.
    pub delivery: Delivery,
    /// The webhook it goes to.
    pub webhook: Arc<Webhook>,
    /// The event it tells.
    pub event: v1::Event,
    /// The secret that signs it.
    pub secret: String,
}

/// Hands out due attempts.
pub struct Dispatcher {
    shared: Arc<Shared>,
    leases: Leases,
    next_worker: AtomicU64,
    state: Mutex<State>,
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
        for out in state.out.values_mut().filter(|out| out.worker == self.id) {
            out.until = out.until.min(until);
        }
        drop(state);
        self.dispatcher.shared.hints.wake();
    }
}

impl Dispatcher {
    /// A dispatcher of this replica.
    #[must_use]
    pub fn new(shared: Arc<Shared>, replica: String) -> Arc<Self> {
        let leases = Leases::new(Arc::clone(&shared.backend), replica);
        Arc::new(Self { shared, leases, next_worker: AtomicU64::new(1), state: Mutex::default() })
    }

    /// Takes a worker's stream: it gets claims until the place is dropped, at most `capacity` unreported.
    pub fn join(self: &Arc<Self>, capacity: usize) -> (WorkerPlace, mpsc::Receiver<Claimed>) {
        let (claims, receiver) = mpsc::channel(capacity.max(1));
        let id = self.next_worker.fetch_add(1, Ordering::Relaxed);
        self.state.lock().workers.insert(id, Worker { claims, capacity, out: 0 });
        self.shared.hints.wake();
        (WorkerPlace { dispatcher: Arc::clone(self), id }, receiver)
    }

    /// Takes back an attempt that was reported, or not made.
    pub fn release_claim(&self, delivery_id: &str) {
        self.state.lock().give_back(delivery_id);
        self.shared.hints.wake();
    }

    /// Gives up all leases.
    pub async fn release(&self) {
        self.leases.release(self.shared.clock.now_ms()).await;
    }

    /// Runs until stopped.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let looks = tokio::select! {
                () = stop.cancelled() => return,
                () = self.shared.hints.news() => false,
                _ = every.tick() => true,
            };
            let now_ms = self.shared.clock.now_ms();
            if self.state.lock().workers.is_empty() {
                self.release().await;
                continue;
            }
            if !self.shared.control.is_current() {
                // Live access may be withdrawn.
                continue;
            }
            let step = async {
                self.leases.renew(now_ms).await?;
                let hinted = self.shared.hints.take();
                self.activate(hinted, minute_of(now_ms));
                if looks {
                    self.look(now_ms).await?;
                }
                self.hand_out(now_ms).await;
                Ok::<(), Error>(())
            };
            if let Err(error) = step.await {
                tracing::warn!(%error, "handing out webhook attempts failed, trying again");
            }
        }
    }

    /// Goes once round the webhooks with something due, until the workers are full.
    async fn hand_out(&self, now_ms: i64) {
        let round: Vec<(String, i64)> = {
            let state = self.state.lock();
            let after = (Bound::Excluded(state.turn.clone()), Bound::Unbounded);
            let upto = (Bound::Unbounded, Bound::Included(state.turn.clone()));
            let places = state.active.range::<String, _>(after).chain(state.active.range::<String, _>(upto));
            places.map(|(webhook, minute)| (webhook.clone(), *minute)).collect()
        };
        for (webhook, minute) in round {
            if !self.leases.holds(shard_of(&webhook), now_ms) {
                continue;
            }
            match self.hand_out_from(&webhook, minute, now_ms).await {
                Ok(true) => {}
                Ok(false) => return,
                // One webhook's trouble must not stop the others.
                Err(error) => tracing::warn!(webhook, %error, "handing out attempts failed, trying again"),
            }
        }
    }

    /// Hands out due attempts of one webhook; false when the workers are full.
    async fn hand_out_from(&self, webhook: &str, minute: i64, now_ms: i64) -> Result<bool> {
        let (room, out, share) = {
            let mut state = self.state.lock();
            state.touched.remove(webhook);
            (state.room(), state.out_by_webhook.get(webhook).copied().unwrap_or_default(), state.share())
        };
        if room == 0 {
            return Ok(false);
        }
        let take = room.min(share.saturating_sub(out));
        if take == 0 {
            return Ok(true);
        }
        let from_ms = first_of(minute - LATE_MINUTES);
        let due = self.shared.deliveries.due(webhook, from_ms, now_ms, out + take).await?;
        let looked_at_all = due.len() < out + take;
        let minute = match due.first() {
            Some(first) => self.state.lock().move_on(webhook, minute, minute_of(first.due_at)),
            None => minute,
        };
        let fresh: Vec<Queued> = {
            let state = self.state.lock();
            due.into_iter().filter(|queued| !state.out.contains_key(&queued.delivery)).collect()
        };
        let all_done = self.hand_out_of(webhook, fresh, minute, now_ms).await?;
        let mut state = self.state.lock();
        webhook.clone_into(&mut state.turn);
        // Attempts that are out are looked at again when reported or late.
        if looked_at_all && all_done && !state.touched.contains(webhook) {
            state.active.remove(webhook);
        }
        Ok(true)
    }

    async fn hand_out_of(&self, webhook_id: &str, due: Vec<Queued>, minute: i64, now_ms: i64) -> Result<bool> {
        let mut webhook = self.usable(webhook_id);
        if matches!(&webhook, Usable::No) || matches!(&webhook, Usable::Yes(webhook, _) if webhook.live) {
            // The webhook may be too new for this replica to know, or its live access was just withdrawn.
            self.shared.control.refresh().await?;
            webhook = self.usable(webhook_id);
        }
        let ids: Vec<String> = due.iter().map(|queued| queued.delivery.clone()).collect();
        let deliveries = self.shared.deliveries.get_many(&ids).await?;
        for (queued, delivery) in due.into_iter().zip(deliveries) {
            if self.state.lock().out.contains_key(&queued.delivery) {
                continue; // It stands in the queue twice.
            }
            let is_due = |at: i64| at <= queued.due_at;
            let Some(delivery) = delivery.filter(|delivery| delivery.next_attempt_at.is_some_and(is_due)) else {
                self.shared.deliveries.unqueue(webhook_id, &queued).await?;
                continue;
            };
            match &webhook {
                Usable::Yes(webhook, serving) if !serving.cancels(delivery.created_at) => {
                    if !self.send(delivery, queued.due_at, webhook, minute, now_ms).await? {
                        return Ok(false);
                    }
                }
                // The attempts wait; enabling the webhook must make it ready again, from the minute of the first on.
                Usable::Disabled => return Ok(true),
                Usable::Yes(..) | Usable::No => {
                    let cancelled = delivery.cancelled();
                    self.shared.deliveries.advance(&delivery, &cancelled, Some(queued.due_at), now_ms).await?;
                }
            }
        }
        Ok(true)
    }

    fn usable(&self, webhook_id: &str) -> Usable {
        let state = self.shared.control.state();
        let Some(webhook) = state.webhook(webhook_id) else { return Usable::No };
        let serving = Serving::of(&state, webhook);
        match (serving.is_any(), serving.is_enabled) {
            (true, true) => Usable::Yes(Arc::clone(webhook), serving),
            (true, false) => Usable::Disabled,
            (false, _) => Usable::No,
        }
    }

    /// Gives an attempt to the worker with the fewest out, or lets it fail when there is nothing to send; false when no
    /// worker has any room.
    async fn send(
        &self,
        delivery: Delivery,
        queued_at: i64,
        webhook: &Arc<Webhook>,
        minute: i64,
        now_ms: i64,
    ) -> Result<bool> {
        let (event, secret) = match (self.event(&delivery).await?, self.secret(webhook)) {
            (Ok(event), Ok(secret)) => (event, secret),
            (Err(unsendable), _) | (_, Err(unsendable)) => {
                self.fail(&delivery, queued_at, &unsendable, now_ms).await?;
                return Ok(true);
            }
        };
        let mut state = self.state.lock();
        let Some((id, worker)) = state
            .workers
            .iter_mut()
            .filter(|(_, worker)| worker.out < worker.capacity)
            .min_by_key(|(_, worker)| worker.out)
        else {
            return Ok(false);
        };
        let (id, delivery_id, attempt) = (*id, delivery.id.clone(), delivery.attempts_made() + 1);
        let claimed = Claimed { delivery, webhook: Arc::clone(webhook), event, secret };
        if worker.claims.try_send(claimed).is_err() {
            return Ok(false);
        }
        worker.out += 1;
        *state.out_by_webhook.entry(webhook.id.clone()).or_default() += 1;
        let webhook = webhook.id.clone();
        let out = Out { worker: id, webhook, attempt, queued_at, since: now_ms, until: now_ms + CLAIM_MS, minute };
        state.out.insert(delivery_id, out);
        Ok(true)
    }
}

enum Usable {
    Yes(Arc<Webhook>, Serving),
    Disabled,
    No,
}

#[cfg(test)]
mod tests;
