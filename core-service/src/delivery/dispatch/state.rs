//! A dispatcher's memory: its workers, the attempts out, and the webhooks with due deliveries. It reads no store.

mod counting;
mod lane_metrics;
mod ready;

use std::{
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    sync::Arc,
};

use thesis_net::{metric::seconds, services::ATTEMPTS_A_PLACE};
use tokio::sync::mpsc;

pub(super) use self::counting::{KnownAttempt, ReportStart};
pub use self::lane_metrics::LaneMetrics;
use super::{
    ClaimedAttempt,
    endpoint::{Endpoint, MAX_OUT_PER_WEBHOOK, QueuePart},
    settled::SettledAttempts,
    timers::Timers,
};
use crate::{
    domain::{control::Webhook, delivery::Delivery},
    metrics::WAITED,
    queue_hints::PendingDelivery,
};

/// Maximum number of deliveries of one webhook that are held ready with their bodies.
pub(super) const MAX_READY_PER_WEBHOOK: usize = 256;
/// Number of ready deliveries below which the webhook's queue is read on.
const READY_LOW: usize = 64;
/// Maximum number of deliveries that are held ready.
const MAX_READY: usize = 50_000;
/// The slow lane gets one of this many parts of all places.
const SLOW_PART: usize = 4;
/// Time without an answer after which an attempt leaves its place to another, in milliseconds.
const LATE_MS: i64 = 300;

/// A lane, as metrics name it.
pub(super) const fn lane(is_slow: bool) -> &'static str {
    if is_slow { "slow" } else { "normal" }
}

/// The due time of the next attempt of a delivery that is not over.
pub(super) fn due_at(delivery: &Delivery) -> i64 {
    delivery.next_attempt_at.unwrap_or_default()
}

pub(super) struct Worker {
    pub(super) claims: mpsc::Sender<ClaimedAttempt>,
    pub(super) capacity: usize,
    pub(super) out: usize,
    pub(super) late: usize,
}

impl Worker {
    /// Number of attempts that the worker may get now.
    fn room(&self) -> usize {
        (self.capacity + self.late.min(self.capacity * (ATTEMPTS_A_PLACE - 1))).saturating_sub(self.out)
    }
}

pub(super) struct OutAttempt {
    pub(super) worker: u64,
    pub(super) webhook: Arc<str>,
    /// The delivery as it was before the attempt.
    pub(super) delivery: Arc<Delivery>,
    /// The webhook as the attempt uses it.
    settings: Arc<Webhook>,
    /// The epoch of the shard's lease under which it was handed out.
    epoch: i64,
    pub(super) since: i64,
    pub(super) until: i64,
    pub(super) is_slow: bool,
    is_late: bool,
    /// Time of the first report that was not counted, in unix milliseconds.
    reported_at: Option<i64>,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) workers: BTreeMap<u64, Worker>,
    timers: Timers,
    endpoints: HashMap<Arc<str>, Endpoint>,
    /// Attempts that are out, by delivery.
    out: HashMap<String, OutAttempt>,
    /// Attempts whose reports are being counted, by delivery and number.
    counting: HashSet<(String, i32)>,
    ready: HashSet<String>,
    /// Healthy webhooks with ready deliveries, in turn; and slow ones.
    turns: VecDeque<Arc<str>>,
    slow_turns: VecDeque<Arc<str>>,
    slow_out: usize,
    /// Webhooks whose queues are to be read.
    to_read: VecDeque<Arc<str>>,
    /// Webhooks with rows that wait until they are enabled.
    waiting: HashSet<Arc<str>>,
    settled: SettledAttempts,
}

impl State {
    /// Requests a read of a webhook's queue from a due time on, once that time has come.
    pub(super) fn expect(&mut self, webhook: &Arc<str>, due_at: i64, now_ms: i64) {
        self.expect_part(webhook, due_at, i64::MAX, now_ms);
    }

    /// Like [`Self::expect`], but leaves out rows that are due after `to`, if the time has come already.
    pub(super) fn expect_part(&mut self, webhook: &Arc<str>, due_at: i64, to: i64, now_ms: i64) {
        if due_at > now_ms {
            self.timers.set(webhook, due_at);
        } else {
            self.read_part(webhook, ((due_at, String::new()), to));
        }
    }

    /// Requests reads of the queues whose due time has come.
    pub(super) fn read_due(&mut self, now_ms: i64) {
        while let Some((due_at, webhook)) = self.timers.next_due(now_ms) {
            self.read_from(&webhook, due_at);
        }
    }

    /// Adds a delivery that may be sent; a known one stays unchanged.
    pub(super) fn add_ready(&mut self, pending: PendingDelivery, now_ms: i64) {
        let delivery = &pending.delivery;
        let (id, number) = (&delivery.id, delivery.attempt_count() + 1);
        if self.has_handed_out(id, number) || self.ready.contains(id) {
            return;
        }
        let webhook: Arc<str> = delivery.webhook_id.as_str().into();
        let endpoint = self.endpoints.entry(Arc::clone(&webhook)).or_default();
        // Each webhook has some room, even if the others fill the memory.
        let max_ready = if self.ready.len() < MAX_READY { MAX_READY_PER_WEBHOOK } else { READY_LOW };
        if endpoint.ready.len() >= max_ready {
            self.read_from(&webhook, due_at(&pending.delivery));
            return;
        }
        self.ready.insert(id.clone());
        endpoint.ready.push_back(pending);
        self.take_turn(&webhook, now_ms);
    }

    /// Requests a read of a webhook's queue from a due time on.
    pub(super) fn read_from(&mut self, webhook: &Arc<str>, due_at: i64) {
        self.read_part(webhook, ((due_at, String::new()), i64::MAX));
    }

    fn read_part(&mut self, webhook: &Arc<str>, part: QueuePart) {
        self.endpoints.entry(Arc::clone(webhook)).or_default().unread.add(part);
        self.request_read(webhook);
    }

    fn request_read(&mut self, webhook: &Arc<str>) {
        let Some(endpoint) = self.endpoints.get_mut(webhook) else { return };
        if endpoint.unread.first().is_some() && !endpoint.is_read && endpoint.ready.len() < READY_LOW {
            endpoint.is_read = true;
            self.to_read.push_back(Arc::clone(webhook));
        }
    }

    /// The next queue to read, and the part to read.
    pub(super) fn next_read(&mut self) -> Option<(Arc<str>, QueuePart)> {
        while let Some(webhook) = self.to_read.pop_front() {
            let Some(endpoint) = self.endpoints.get_mut(&webhook) else { continue };
            match endpoint.unread.pop_first() {
                Some(part) => {
                    endpoint.reading = Some(part.0.0);
                    return Some((webhook, part));
                }
                None => endpoint.is_read = false,
            }
        }
        None
    }

    /// Ends a read. It continues with `next` if more rows may be due.
    pub(super) fn end_read(&mut self, webhook: &Arc<str>, next: Option<QueuePart>) {
        let Some(endpoint) = self.endpoints.get_mut(webhook) else { return };
        (endpoint.is_read, endpoint.reading) = (false, None);
        match next {
            Some(part) => self.read_part(webhook, part),
            None => self.request_read(webhook),
        }
        self.forget_if_idle(webhook);
    }

    pub(super) fn add_waiting(&mut self, webhook: &Arc<str>, due_at: i64) {
        let endpoint = self.endpoints.entry(Arc::clone(webhook)).or_default();
        endpoint.waiting = Some(endpoint.waiting.map_or(due_at, |first| first.min(due_at)));
        self.waiting.insert(Arc::clone(webhook));
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = &Arc<str>> {
        self.waiting.iter()
    }

    /// Requests a read of the rows that waited for their webhook.
    pub(super) fn resume(&mut self, webhook: &Arc<str>) {
        self.waiting.remove(webhook);
        if let Some(first) = self.endpoints.get_mut(webhook).and_then(|endpoint| endpoint.waiting.take()) {
            self.read_from(webhook, first);
        }
    }

    fn take_turn(&mut self, webhook: &Arc<str>, now_ms: i64) {
        let Some(endpoint) = self.endpoints.get_mut(webhook) else { return };
        if endpoint.in_turn || endpoint.ready.is_empty() {
            return;
        }
        endpoint.in_turn = true;
        let turns = if endpoint.is_slow(now_ms) { &mut self.slow_turns } else { &mut self.turns };
        turns.push_back(Arc::clone(webhook));
    }

    /// The next delivery to hand out of a healthy webhook, in turn.
    pub(super) fn next_healthy(&mut self, now_ms: i64) -> Option<PendingDelivery> {
        while let Some(webhook) = self.turns.pop_front() {
            let share = (self.capacity() * 3).div_ceil(4 * (self.turns.len() + 1));
            let Some(endpoint) = self.endpoints.get_mut(&webhook) else { continue };
            let max_out = share.clamp(1, endpoint.places());
            endpoint.in_turn = false;
            if endpoint.is_slow(now_ms) {
                self.take_turn(&webhook, now_ms);
                continue;
            }
            // Its next report gives it another turn.
            if endpoint.out.len() >= max_out {
                continue;
            }
            if let Some(pending) = self.take_ready(&webhook, now_ms) {
                return Some(pending);
            }
        }
        None
    }

    /// One delivery of each webhook of the slow lane, in turn, while the lane has places.
    pub(super) fn slow_round(&mut self, now_ms: i64) -> Vec<PendingDelivery> {
        let places = (self.capacity() / SLOW_PART).max(1).saturating_sub(self.slow_out).min(self.room());
        let mut round = Vec::new();
        for _ in 0..self.slow_turns.len() {
            if round.len() >= places {
                break;
            }
            let Some(webhook) = self.slow_turns.pop_front() else { break };
            if let Some(endpoint) = self.endpoints.get_mut(&webhook) {
                endpoint.in_turn = false;
                if endpoint.out.len() < MAX_OUT_PER_WEBHOOK {
                    round.extend(self.take_ready(&webhook, now_ms));
                } else {
                    self.take_turn(&webhook, now_ms);
                }
            }
        }
        round
    }

    /// The worker with the fewest attempts out, if one has room.
    pub(super) fn least_loaded(&mut self) -> Option<(u64, &mut Worker)> {
        let free = self.workers.iter_mut().filter(|(_, worker)| worker.room() > 0);
        free.min_by_key(|(_, worker)| worker.out).map(|(id, worker)| (*id, worker))
    }

    /// Notes that a worker has the attempt of a delivery until a time. This core has its state under an epoch.
    pub(super) fn send(
        &mut self,
        worker: u64,
        delivery: Arc<Delivery>,
        settings: Arc<Webhook>,
        epoch: i64,
        (now_ms, until): (i64, i64),
    ) {
        let webhook: Arc<str> = delivery.webhook_id.as_str().into();
        if let Some(worker) = self.workers.get_mut(&worker) {
            worker.out += 1;
        }
        let endpoint = self.endpoints.entry(Arc::clone(&webhook)).or_default();
        let is_slow = endpoint.is_slow(now_ms);
        WAITED.at(lane(is_slow)).record(seconds(now_ms - due_at(&delivery)));
        self.slow_out += usize::from(is_slow);
        endpoint.out.insert((now_ms, delivery.id.clone()));
        let (id, since, is_late, reported_at) = (delivery.id.clone(), now_ms, false, None);
        let out =
            OutAttempt { worker, webhook, delivery, settings, epoch, since, until, is_slow, is_late, reported_at };
        self.out.insert(id, out);
    }

    /// Lets attempts that are late leave their places: endpoints that hang must not hold up those that answer.
    pub(super) fn note_late(&mut self, now_ms: i64) {
        for out in self.out.values_mut().filter(|out| !out.is_late && now_ms - out.since > LATE_MS) {
            if let Some(worker) = self.workers.get_mut(&out.worker) {
                worker.late += 1;
                out.is_late = true;
            }
        }
    }

    pub(super) fn outs(&mut self) -> impl Iterator<Item = &mut OutAttempt> {
        self.out.values_mut()
    }

    /// Removes an attempt without a report, and requests a read of its queue row. The rows behind it may be many, and
    /// removed.
    pub(super) fn give_back(&mut self, delivery: &str, number: i32, now_ms: i64) {
        if !self.is_counting(delivery, number)
            && let Some(out) = self.remove_attempt(delivery, number, now_ms)
        {
            let due_at = due_at(&out.delivery);
            self.read_part(&out.webhook, ((due_at, String::new()), due_at));
        }
    }

    /// Removes an attempt, reported or not. Returns it if it was out.
    pub(super) fn remove_attempt(&mut self, delivery: &str, number: i32, now_ms: i64) -> Option<OutAttempt> {
        self.out.get(delivery).filter(|out| out.delivery.attempt_count() + 1 == number)?;
        let out = self.out.remove(delivery)?;
        self.slow_out -= usize::from(out.is_slow);
        if let Some(worker) = self.workers.get_mut(&out.worker) {
            worker.out = worker.out.saturating_sub(1);
            worker.late -= usize::from(out.is_late);
        }
        if let Some(endpoint) = self.endpoints.get_mut(&out.webhook) {
            endpoint.out.remove(&(out.since, delivery.to_owned()));
        }
        self.take_turn(&out.webhook, now_ms);
        self.forget_if_idle(&out.webhook);
        Some(out)
    }

    pub(super) fn note_outcome(&mut self, webhook: &str, delivery: &str, number: i32, succeeded: bool) {
        self.settled.add(delivery, number);
        if let Some(endpoint) = self.endpoints.get_mut(webhook) {
            endpoint.note_outcome(succeeded);
        } else if !succeeded {
            self.endpoints.entry(webhook.into()).or_default().note_outcome(false);
        }
    }

    fn forget_if_idle(&mut self, webhook: &Arc<str>) {
        let idle = |endpoint: &Endpoint| endpoint.is_idle() && !endpoint.in_turn && endpoint.is_good();
        if self.endpoints.get(webhook).is_some_and(idle) {
            self.endpoints.remove(webhook);
        }
    }

    /// Forgets the endpoints of deleted webhooks that have no delivery left.
    pub(super) fn forget_deleted(&mut self, is_known: impl Fn(&str) -> bool) {
        self.endpoints.retain(|webhook, endpoint| !endpoint.is_idle() || is_known(webhook));
    }

    /// The due time of the first delivery of each webhook that is not over.
    pub(super) fn firsts(&self) -> HashMap<Arc<str>, i64> {
        let mut firsts: HashMap<Arc<str>, i64> = HashMap::new();
        let known = self.endpoints.iter().filter_map(|(webhook, endpoint)| Some((webhook, endpoint.first()?)));
        let out = self.out.values().filter_map(|out| Some((&out.webhook, out.delivery.next_attempt_at?)));
        for (webhook, due_at) in known.chain(out) {
            let first = firsts.entry(Arc::clone(webhook)).or_insert(due_at);
            *first = due_at.min(*first);
        }
        firsts
    }

    /// Forgets webhooks; attempts that are out stay.
    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.timers.retain(&keep);
        self.waiting.retain(|webhook| keep(webhook));
        for turns in [&mut self.turns, &mut self.slow_turns, &mut self.to_read] {
            turns.retain(|webhook| keep(webhook));
        }
        for (_, endpoint) in self.endpoints.extract_if(|webhook, _| !keep(webhook)) {
            for pending in endpoint.ready {
                self.ready.remove(&pending.delivery.id);
            }
        }
    }

    fn capacity(&self) -> usize {
        self.workers.values().map(|worker| worker.capacity).sum()
    }

    pub(super) fn room(&self) -> usize {
        self.workers.values().map(Worker::room).sum()
    }

    /// True if the memory has an entry for a webhook's endpoint.
    #[cfg(test)]
    pub(super) fn remembers(&self, webhook: &str) -> bool {
        self.endpoints.contains_key(webhook)
    }

    /// True if nothing is out, ready or to be read.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.out.is_empty() && self.ready.is_empty() && self.endpoints.values().all(Endpoint::is_idle)
    }
}

#[cfg(test)]
mod tests;
