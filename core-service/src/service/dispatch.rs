//! Hands out due attempts to workers and takes their reports.
//!
//! A replica hands out the attempts of the shards whose lease it holds, and holds leases only while workers are connected
//! to it. Leases only save duplicate work: an attempt counts from the expected attempt number, whoever reports it.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Bound,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use thesis_proto::v1;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::{
    core::Shared,
    error::{Error, Result},
    writer::decode,
};
use crate::{
    domain::{
        control::Webhook,
        dataset::Dataset,
        delivery::{Attempt, Delivery},
        entry::Entry,
    },
    key,
    store::{
        ConditionalWrite, Consistency, Expect, Transaction,
        deliveries::{Queued, SHARDS, minute_of, shard_of},
        tables,
    },
};

/// How often the ready minutes are read without a hint.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Attempts of one webhook that are out at once: a slow endpoint must not take all of a worker.
const PER_WEBHOOK: usize = 64;
/// An attempt not reported by then is handed out again.
const CLAIM_MS: i64 = 15_000;
/// The same once its worker's stream has ended: attempts under way end and are reported within this time.
const ORPHAN_MS: i64 = 8_000;
/// An attempt out for so long may have been reported to another replica.
const UNREPORTED_MS: i64 = 1_000;
/// How long a shard's lease lasts.
const LEASE_MS: i64 = 10_000;
/// When it is renewed.
const RENEW_MS: i64 = 3_000;
/// Minutes behind now that are read again, since a hint may be written late.
const LATE_MINUTES: i64 = 2;
/// Minutes looked back where nothing is known.
const LOOK_BACK_MINUTES: i64 = 24 * 60;

/// Webhooks whose queues have something new, told by the fan-out of this replica.
#[derive(Debug, Default)]
pub struct QueueHints {
    webhooks: Mutex<HashSet<String>>,
    notify: Notify,
}

impl QueueHints {
    /// Tells of queues with something new.
    pub fn add(&self, webhooks: impl Iterator<Item = String>) {
        self.webhooks.lock().extend(webhooks);
        self.notify.notify_one();
    }

    fn take(&self) -> HashSet<String> {
        std::mem::take(&mut *self.webhooks.lock())
    }
}

/// An attempt to be made.
#[derive(Debug)]
pub struct Claimed {
    /// The delivery as it is before the attempt.
    pub delivery: Delivery,
    /// Where it goes.
    pub webhook: Arc<Webhook>,
    /// What it tells.
    pub entry: Entry,
    /// The entry's dataset.
    pub dataset: Dataset,
}

struct Worker {
    claims: mpsc::Sender<Claimed>,
    capacity: usize,
    out: usize,
}

struct Out {
    worker: u64,
    webhook: String,
    /// The attempt's number.
    attempt: i32,
    since: i64,
    until: i64,
    /// The minute in which the webhook was found to have something due.
    minute: i64,
}

#[derive(Default)]
struct State {
    workers: BTreeMap<u64, Worker>,
    /// Attempts that are out, by delivery.
    out: HashMap<String, Out>,
    out_by_webhook: HashMap<String, usize>,
    /// Webhooks with something due, and since which minute.
    active: BTreeMap<String, i64>,
    /// Webhooks of which an attempt came back since their queue was last read.
    touched: HashSet<String>,
    /// The webhook that was served last; the round goes on behind it.
    turn: String,
    /// Until when each shard's lease is held.
    leases: HashMap<i64, i64>,
    /// Minutes of each shard that are done, as stored, and the newest that was read.
    done: HashMap<i64, (i64, i64)>,
}

/// Hands out due attempts.
pub struct Dispatcher {
    shared: Arc<Shared>,
    replica: String,
    next_worker: AtomicU64,
    state: Mutex<State>,
}

impl State {
    fn settle(&mut self, delivery: &str) {
        if let Some(out) = self.out.remove(delivery) {
            if let Some(count) = self.out_by_webhook.get_mut(&out.webhook) {
                *count -= 1;
                if *count == 0 {
                    self.out_by_webhook.remove(&out.webhook);
                }
            }
            if let Some(worker) = self.workers.get_mut(&out.worker) {
                worker.out = worker.out.saturating_sub(1);
            }
        }
    }

    /// Settles an attempt and has its webhook's queue read again.
    fn give_back(&mut self, delivery: &str) {
        let Some((webhook, minute)) = self.out.get(delivery).map(|out| (out.webhook.clone(), out.minute)) else {
            return;
        };
        self.settle(delivery);
        self.touched.insert(webhook.clone());
        self.activate(webhook, minute);
    }

    fn activate(&mut self, webhook: String, minute: i64) {
        self.active.entry(webhook).and_modify(|known| *known = minute.min(*known)).or_insert(minute);
    }

    /// Attempts that one webhook may have out: the rest stays free for those that become due meanwhile.
    fn share(&self) -> usize {
        let capacity: usize = self.workers.values().map(|worker| worker.capacity).sum();
        let busy: HashSet<&String> = self.active.keys().chain(self.out_by_webhook.keys()).collect();
        // One alone is held back by `PER_WEBHOOK` only.
        let parts = if busy.len() < 2 { 1 } else { busy.len() + 1 };
        (capacity / parts).clamp(1, PER_WEBHOOK)
    }

    fn room(&self) -> usize {
        self.workers.values().map(|worker| worker.capacity.saturating_sub(worker.out)).sum()
    }
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
        self.dispatcher.shared.hints.notify.notify_one();
    }
}

impl Dispatcher {
    /// A dispatcher of this replica.
    #[must_use]
    pub fn new(shared: Arc<Shared>, replica: String) -> Arc<Self> {
        Arc::new(Self { shared, replica, next_worker: AtomicU64::new(1), state: Mutex::default() })
    }

    /// Takes a worker's stream: it gets claims until the place is dropped, at most `capacity` unreported.
    pub fn join(self: &Arc<Self>, capacity: usize) -> (WorkerPlace, mpsc::Receiver<Claimed>) {
        let (claims, receiver) = mpsc::channel(capacity.max(1));
        let id = self.next_worker.fetch_add(1, Ordering::Relaxed);
        self.state.lock().workers.insert(id, Worker { claims, capacity, out: 0 });
        self.shared.hints.notify.notify_one();
        (WorkerPlace { dispatcher: Arc::clone(self), id }, receiver)
    }

    /// Takes a report. Repeating it, or reporting what another has reported, changes nothing.
    ///
    /// # Errors
    /// When the store does not answer; the report is to be repeated then.
    pub async fn report(&self, delivery_id: &str, attempt: Attempt) -> Result<()> {
        let now_ms = self.shared.clock.now_ms();
        if let Some(before) = self.shared.deliveries.get(delivery_id).await?
            && !before.is_over()
            && before.attempts_made() + 1 == attempt.number
        {
            let after = before.after(attempt, now_ms);
            self.shared.deliveries.advance(&before, &after, now_ms).await?;
        }
        self.release_claim(delivery_id);
        Ok(())
    }

    /// Takes back an attempt that was reported, or not made.
    pub fn release_claim(&self, delivery_id: &str) {
        self.state.lock().give_back(delivery_id);
        self.shared.hints.notify.notify_one();
    }

    /// Runs until stopped.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let looks = tokio::select! {
                () = stop.cancelled() => return,
                () = self.shared.hints.notify.notified() => false,
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
                self.renew(now_ms).await?;
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

    fn holds(&self, shard: i64, now_ms: i64) -> bool {
        self.shared.backend.is_exclusive() || self.state.lock().leases.get(&shard).is_some_and(|until| *until > now_ms)
    }

    /// Takes the leases that are free and renews those that are held.
    async fn renew(&self, now_ms: i64) -> Result<()> {
        if self.shared.backend.is_exclusive() {
            return Ok(());
        }
        for shard in 0..SHARDS {
            let held = self.state.lock().leases.get(&shard).copied();
            if held.is_some_and(|until| until - now_ms > LEASE_MS - RENEW_MS) {
                continue;
            }
            if self.lease(shard, now_ms, now_ms + LEASE_MS).await? {
                self.state.lock().leases.insert(shard, now_ms + LEASE_MS);
            } else {
                self.state.lock().leases.remove(&shard);
            }
        }
        Ok(())
    }

    /// Writes a lease of this replica if the shard is free or its own. The row's body is the owner and the end.
    async fn lease(&self, shard: i64, now_ms: i64, until: i64) -> Result<bool> {
        let row = self.shared.backend.get(&tables::SHARD_LEASE, &key![shard], Consistency::Quorum).await?;
        let (expect, version) = match &row {
            None => (Expect::Absent, 1),
            Some(row) => {
                let text = String::from_utf8_lossy(&row.body);
                let (end, owner) = text.split_once(' ').unwrap_or_default();
                if owner != self.replica && end.parse::<i64>().is_ok_and(|end| end > now_ms) {
                    return Ok(false);
                }
                (Expect::Version(row.version), row.version + 1)
            }
        };
        let body = Some(Bytes::from(format!("{until} {}", self.replica)));
        let write = ConditionalWrite { clustering: Vec::new(), expect, version, body };
        let transaction =
            Transaction { table: &tables::SHARD_LEASE, partition: key![shard], writes: vec![write], ttl: None };
        Ok(self.shared.backend.transact(transaction).await?)
    }

    /// Gives up all leases.
    pub async fn release(&self) {
        let held: Vec<i64> = self.state.lock().leases.drain().map(|(shard, _)| shard).collect();
        for shard in held {
            if let Err(error) = self.lease(shard, self.shared.clock.now_ms(), 0).await {
                tracing::debug!(%error, shard, "giving up a lease failed; it ends by itself");
            }
        }
    }

    fn activate(&self, webhooks: impl IntoIterator<Item = String>, minute: i64) {
        let mut state = self.state.lock();
        for webhook in webhooks {
            state.activate(webhook, minute);
        }
    }

    /// Reads which webhooks have something due, and notes the minutes that are done.
    async fn look(&self, now_ms: i64) -> Result<()> {
        let now = minute_of(now_ms);
        self.settle_late(now_ms).await?;
        for shard in 0..SHARDS {
            if !self.holds(shard, now_ms) {
                let mut state = self.state.lock();
                state.done.remove(&shard);
                state.active.retain(|webhook, _| shard_of(webhook) != shard);
                continue;
            }
            let known = self.state.lock().done.get(&shard).copied();
            // The first look reads every minute that is not done; later ones those that may have changed since.
            let (done, read) = match known {
                Some(known) => known,
                None => {
                    let stored = self.shared.deliveries.ready_done(shard).await?;
                    // Where nothing is stored, nothing was due before the first start of all.
                    let first_start = self.shared.control.state().seed().map_or(0, |seed| minute_of(seed.at));
                    let done = stored.unwrap_or((first_start - LATE_MINUTES).max(now - LOOK_BACK_MINUTES));
                    (done, done)
                }
            };
            for minute in (read - LATE_MINUTES).max(done) + 1..=now {
                let webhooks = self.shared.deliveries.ready(shard, minute).await?;
                self.activate(webhooks, minute);
            }
            let oldest = {
                let state = self.state.lock();
                let active = state.active.iter().map(|(webhook, minute)| (webhook, *minute));
                let out = state.out.values().map(|out| (&out.webhook, out.minute));
                let mine = active.chain(out).filter(|(webhook, _)| shard_of(webhook) == shard);
                mine.map(|(_, minute)| minute - 1).min()
            };
            let finished = oldest.unwrap_or(i64::MAX).min(now - LATE_MINUTES - 1).max(done);
            if finished > done {
                self.shared.deliveries.set_ready_done(shard, finished).await?;
            }
            self.state.lock().done.insert(shard, (finished, now));
        }
        Ok(())
    }

    /// Takes back attempts that are late, and settles those that were reported to another replica.
    async fn settle_late(&self, now_ms: i64) -> Result<()> {
        let mut unreported: Vec<(String, i32)> = Vec::new();
        {
            let mut state = self.state.lock();
            let late: Vec<String> =
                state.out.iter().filter(|(_, out)| out.until <= now_ms).map(|(id, _)| id.clone()).collect();
            late.iter().for_each(|delivery| state.give_back(delivery));
            if !self.shared.backend.is_exclusive() {
                let old = state.out.iter().filter(|(_, out)| now_ms - out.since >= UNREPORTED_MS);
                unreported.extend(old.map(|(id, out)| (id.clone(), out.attempt)));
            }
        }
        let ids: Vec<String> = unreported.iter().map(|(id, _)| id.clone()).collect();
        let deliveries = self.shared.deliveries.get_many(&ids).await?;
        let mut state = self.state.lock();
        for ((id, attempt), delivery) in unreported.into_iter().zip(deliveries) {
            if delivery.is_none_or(|delivery| delivery.attempts_made() >= attempt || delivery.is_over()) {
                state.give_back(&id);
            }
        }
        Ok(())
    }

    /// Goes round the webhooks with something due until nothing is left or the workers are full.
    async fn hand_out(&self, now_ms: i64) {
        let round: Vec<(String, i64)> = {
            let state = self.state.lock();
            let after = (Bound::Excluded(state.turn.clone()), Bound::Unbounded);
            let upto = (Bound::Unbounded, Bound::Included(state.turn.clone()));
            let places = state.active.range::<String, _>(after).chain(state.active.range::<String, _>(upto));
            places.map(|(webhook, minute)| (webhook.clone(), *minute)).collect()
        };
        for (webhook, minute) in round {
            if !self.holds(shard_of(&webhook), now_ms) {
                continue;
            }
            match self.hand_out_from(&webhook, minute, now_ms).await {
                Ok(true) => {}
                Ok(false) => return,
                // One webhook's trouble is not its neighbours'.
                Err(error) => tracing::warn!(webhook, %error, "handing out attempts failed, trying again"),
            }
        }
    }

    /// Hands out what is due of one webhook; false when the workers are full.
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
        let due = self.shared.deliveries.due(webhook, now_ms, out + take).await?;
        let looked_at_all = due.len() < out + take;
        let fresh: Vec<Queued> = {
            let state = self.state.lock();
            due.into_iter().filter(|queued| !state.out.contains_key(&queued.delivery)).collect()
        };
        let all_done = self.hand_out_of(webhook, fresh, minute, now_ms).await?;
        let mut state = self.state.lock();
        webhook.clone_into(&mut state.turn);
        // What is out is looked at again when it is reported or late.
        if looked_at_all && all_done && !state.touched.contains(webhook) {
            state.active.remove(webhook);
        }
        Ok(true)
    }

    async fn hand_out_of(&self, webhook_id: &str, due: Vec<Queued>, minute: i64, now_ms: i64) -> Result<bool> {
        let mut webhook = self.usable(webhook_id);
        if matches!(webhook, Usable::No) {
            // It may only be too new for what this replica knows.
            self.shared.control.catch_up().await?;
            webhook = self.usable(webhook_id);
        }
        let ids: Vec<String> = due.iter().map(|queued| queued.delivery.clone()).collect();
        let deliveries = self.shared.deliveries.get_many(&ids).await?;
        for (queued, delivery) in due.into_iter().zip(deliveries) {
            let current =
                delivery.filter(|delivery| !delivery.is_over() && delivery.next_attempt_at == Some(queued.due_at));
            let Some(delivery) = current else {
                self.shared.deliveries.unqueue(webhook_id, &queued).await?;
                continue;
            };
            match &webhook {
                Usable::Yes(webhook) => {
                    if !self.send(delivery, webhook, minute, now_ms).await? {
                        return Ok(false);
                    }
                }
                // They wait; enabling the webhook makes it ready again.
                Usable::Disabled => return Ok(true),
                Usable::No => {
                    self.shared.deliveries.advance(&delivery, &delivery.cancelled(), now_ms).await?;
                }
            }
        }
        Ok(true)
    }

    fn usable(&self, webhook_id: &str) -> Usable {
        let state = self.shared.control.state();
        let Some(webhook) = state.webhook(webhook_id) else { return Usable::No };
        let project = state.project(&webhook.project_id);
        if !project.is_some_and(|project| !project.archived && (!webhook.live || project.live_approved)) {
            return Usable::No;
        }
        if webhook.status == i32::from(v1::WebhookStatus::Enabled) {
            Usable::Yes(Arc::clone(webhook))
        } else {
            Usable::Disabled
        }
    }

    /// Gives an attempt to the worker with the most room; false when none has any.
    async fn send(&self, delivery: Delivery, webhook: &Arc<Webhook>, minute: i64, now_ms: i64) -> Result<bool> {
        let body = self.shared.log.get(&delivery.dataset, delivery.seq).await?;
        let body = body.ok_or_else(|| Error::internal(format!("{} points to no entry", delivery.id)))?;
        let dataset =
            Dataset::parse(&delivery.dataset).ok_or_else(|| Error::internal("a delivery without a dataset"))?;
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
        let claimed = Claimed { delivery, webhook: Arc::clone(webhook), entry: decode(body)?, dataset };
        if worker.claims.try_send(claimed).is_err() {
            return Ok(false);
        }
        worker.out += 1;
        *state.out_by_webhook.entry(webhook.id.clone()).or_default() += 1;
        let webhook = webhook.id.clone();
        let out = Out { worker: id, webhook, attempt, since: now_ms, until: now_ms + CLAIM_MS, minute };
        state.out.insert(delivery_id, out);
        Ok(true)
    }
}

enum Usable {
    Yes(Arc<Webhook>),
    Disabled,
    No,
}

#[cfg(test)]
mod tests;
