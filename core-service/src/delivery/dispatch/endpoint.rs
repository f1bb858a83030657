//! What a dispatcher knows of one webhook.

use std::collections::{BTreeSet, VecDeque};

use super::health::Health;
use crate::shared::queue_hints::PendingDelivery;

/// Most attempts of one webhook that are out at once: a slow endpoint must not take all of a worker.
pub(super) const PER_WEBHOOK: usize = 64;
/// The same as long as it is not known whether its endpoint answers: each success that leaves others waiting adds one.
pub(super) const PER_NEW_WEBHOOK: usize = 4;
/// An endpoint that leaves an attempt without an answer for longer counts as slow until it answers, in milliseconds.
const HANGING_MS: i64 = 1_000;

/// A place in a queue: the due time and the delivery after which reading goes on.
pub(super) type QueuePosition = (i64, String);

/// What is known of a webhook with something due.
#[derive(Default)]
pub(super) struct Endpoint {
    pub(super) ready: VecDeque<PendingDelivery>,
    /// Where its queue has rows that may be due and are not read.
    pub(super) unread: Option<QueuePosition>,
    /// The due time of the first row that waits until the webhook is enabled.
    pub(super) waiting: Option<i64>,
    /// Whether its queue is to be read, or is being read.
    pub(super) is_read: bool,
    /// The due time from which on it is being read.
    pub(super) reading: Option<i64>,
    pub(super) in_turn: bool,
    pub(super) out: BTreeSet<(i64, String)>,
    health: Health,
    /// The places that it has earned.
    earned: usize,
}

impl Endpoint {
    /// Notes how an attempt ended.
    pub(super) fn note(&mut self, succeeded: bool) {
        self.health.note(succeeded);
        if !succeeded {
            self.earned /= 2;
        } else if !self.ready.is_empty() {
            self.earned = (self.earned + 1).min(PER_WEBHOOK - PER_NEW_WEBHOOK);
        }
    }

    /// Whether it shares the slow lane.
    pub(super) fn is_slow(&self, now_ms: i64) -> bool {
        self.health.is_slow() || self.out.first().is_some_and(|(since, _)| now_ms - since > HANGING_MS)
    }

    /// Most attempts at it that may be out.
    pub(super) const fn places(&self) -> usize {
        PER_NEW_WEBHOOK + self.earned
    }

    /// Whether nothing is known against it.
    pub(super) const fn is_good(&self) -> bool {
        self.health.is_good()
    }

    /// The due time of the first delivery that is not over, as far as is known.
    pub(super) fn first(&self) -> Option<i64> {
        [self.first_due(), self.waiting].into_iter().flatten().min()
    }

    /// The same without those that wait until the webhook is enabled.
    pub(super) fn first_due(&self) -> Option<i64> {
        let ready = self.ready.iter().filter_map(|pending| pending.delivery.next_attempt_at).min();
        let unread = self.unread.as_ref().map(|(due_at, _)| *due_at);
        [ready, unread, self.reading].into_iter().flatten().min()
    }

    /// Whether there is nothing of it to do.
    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.unread.is_none() && self.waiting.is_none() && !self.is_read && self.out.is_empty()
    }
}
