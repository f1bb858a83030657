//! The dispatcher's state of one webhook.

use std::collections::{BTreeSet, VecDeque};

use super::health::Health;
use crate::queue_hints::PendingDelivery;

/// Maximum number of attempts of one webhook that are out at once. A slow endpoint must not occupy a whole worker.
pub(super) const MAX_OUT_PER_WEBHOOK: usize = 64;
/// The limit for an endpoint that has not answered yet. Each success adds one while other deliveries wait.
pub(super) const MIN_OUT_PER_WEBHOOK: usize = 4;
/// Time without an answer after which an endpoint counts as slow until it answers, in milliseconds.
const HANGING_MS: i64 = 1_000;

/// A position in a queue: the due time and the delivery after which reading continues.
pub(super) type QueuePosition = (i64, String);

/// The state of a webhook that has due deliveries.
#[derive(Default)]
pub(super) struct Endpoint {
    pub(super) ready: VecDeque<PendingDelivery>,
    /// The position from which its queue has unread rows that may be due.
    pub(super) unread: Option<QueuePosition>,
    /// The due time of the first row that waits until the webhook is enabled.
    pub(super) waiting: Option<i64>,
    /// True while a read of its queue is requested or runs.
    pub(super) is_read: bool,
    /// The due time at which the running read begins.
    pub(super) reading: Option<i64>,
    pub(super) in_turn: bool,
    pub(super) out: BTreeSet<(i64, String)>,
    health: Health,
    /// Attempts beyond the minimum that its successes have earned.
    earned: usize,
}

impl Endpoint {
    pub(super) fn note_outcome(&mut self, succeeded: bool) {
        self.health.note_outcome(succeeded);
        if !succeeded {
            self.earned /= 2;
        } else if !self.ready.is_empty() {
            self.earned = (self.earned + 1).min(MAX_OUT_PER_WEBHOOK - MIN_OUT_PER_WEBHOOK);
        }
    }

    /// True while the webhook shares the slow lane.
    pub(super) fn is_slow(&self, now_ms: i64) -> bool {
        self.health.is_slow() || self.out.first().is_some_and(|(since, _)| now_ms - since > HANGING_MS)
    }

    /// Maximum number of its attempts that may be out.
    pub(super) const fn places(&self) -> usize {
        MIN_OUT_PER_WEBHOOK + self.earned
    }

    /// True if none of its last attempts failed.
    pub(super) const fn is_good(&self) -> bool {
        self.health.is_good()
    }

    /// The earliest known due time of a delivery that is not over.
    pub(super) fn first(&self) -> Option<i64> {
        [self.first_due(), self.waiting].into_iter().flatten().min()
    }

    /// Like [`Self::first`], but leaves out deliveries that wait until the webhook is enabled.
    pub(super) fn first_due(&self) -> Option<i64> {
        let ready = self.ready.iter().filter_map(|pending| pending.delivery.next_attempt_at).min();
        let unread = self.unread.as_ref().map(|(due_at, _)| *due_at);
        [ready, unread, self.reading].into_iter().flatten().min()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.ready.is_empty() && self.unread.is_none() && self.waiting.is_none() && !self.is_read && self.out.is_empty()
    }
}
