//! A dispatcher's memory: its workers, the attempts out, and the webhooks with something due.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokio::sync::mpsc;

use super::Claimed;

/// Most attempts of one webhook that are out at once: a slow endpoint must not take all of a worker.
pub(super) const PER_WEBHOOK: usize = 64;

/// A worker that is connected.
pub(super) struct Worker {
    pub(super) claims: mpsc::Sender<Claimed>,
    pub(super) capacity: usize,
    pub(super) out: usize,
}

/// An attempt that is out.
pub(super) struct Out {
    pub(super) worker: u64,
    pub(super) webhook: String,
    /// The attempt's number.
    pub(super) attempt: i32,
    /// Its due time in the queue.
    pub(super) queued_at: i64,
    pub(super) since: i64,
    pub(super) until: i64,
    /// The minute in which the webhook was found to have something due.
    pub(super) minute: i64,
}

/// A dispatcher's memory.
#[derive(Default)]
pub(super) struct State {
    pub(super) workers: BTreeMap<u64, Worker>,
    /// Attempts that are out, by delivery.
    pub(super) out: HashMap<String, Out>,
    pub(super) out_by_webhook: HashMap<String, usize>,
    /// Webhooks with something due, and since which minute.
    pub(super) active: BTreeMap<String, i64>,
    /// Webhooks with an attempt that came back since their queue was last read.
    pub(super) touched: HashSet<String>,
    /// The webhook that was served last; the round goes on after it.
    pub(super) turn: String,
    /// By shard, the last minute that is done, as stored, and the newest that was read.
    pub(super) done: HashMap<i64, (i64, i64)>,
    /// The second in which past minutes were last read.
    pub(super) second: i64,
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
    pub(super) fn give_back(&mut self, delivery: &str) {
        let Some((webhook, minute)) = self.out.get(delivery).map(|out| (out.webhook.clone(), out.minute)) else {
            return;
        };
        self.settle(delivery);
        self.touched.insert(webhook.clone());
        self.activate(webhook, minute);
    }

    pub(super) fn activate(&mut self, webhook: String, minute: i64) {
        self.active.entry(webhook).and_modify(|known| *known = minute.min(*known)).or_insert(minute);
    }

    /// Notes that a queue read from minute `read` on begins in `begins`; gives the minute since when something is due.
    pub(super) fn move_on(&mut self, webhook: &str, read: i64, begins: i64) -> i64 {
        match self.active.get_mut(webhook) {
            // Otherwise an earlier minute was noted meanwhile.
            Some(minute) if *minute == read => {
                *minute = begins.max(read);
                *minute
            }
            _ => read,
        }
    }

    /// Most attempts that one webhook may have out: the rest is for webhooks that become due meanwhile.
    pub(super) fn share(&self) -> usize {
        let capacity: usize = self.workers.values().map(|worker| worker.capacity).sum();
        let busy: HashSet<&String> = self.active.keys().chain(self.out_by_webhook.keys()).collect();
        // A webhook alone is limited by `PER_WEBHOOK` only.
        let parts = if busy.len() < 2 { 1 } else { busy.len() + 1 };
        (capacity / parts).clamp(1, PER_WEBHOOK)
    }

    pub(super) fn room(&self) -> usize {
        self.workers.values().map(|worker| worker.capacity.saturating_sub(worker.out)).sum()
    }
}
