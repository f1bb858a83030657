//! The dispatcher's state of one webhook.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::health::Health;
use crate::{queue_hints::PendingDelivery, tables::queue::QueuePosition};

/// Maximum number of attempts of one webhook that are out at once. A slow endpoint must not occupy a whole worker.
pub(super) const MAX_OUT_PER_WEBHOOK: usize = 64;
/// The limit for an endpoint that has not answered yet. Each success adds one while other deliveries wait.
pub(super) const MIN_OUT_PER_WEBHOOK: usize = 4;
/// Time without an answer after which an endpoint counts as slow until it answers, in milliseconds.
const HANGING_MS: i64 = 1_000;

/// A part of a queue: the position after which it begins, and the last due time in it.
pub(super) type QueuePart = (QueuePosition, i64);

/// The parts of a queue that have unread rows that may be due. A part that lies in another one is left out.
#[derive(Default)]
pub(super) struct UnreadParts(BTreeMap<QueuePosition, i64>);

impl UnreadParts {
    pub(super) fn add(&mut self, (from, to): QueuePart) {
        if !self.0.iter().any(|(begin, end)| *begin <= from && *end >= to) {
            self.0.retain(|begin, end| *begin < from || *end > to);
            self.0.insert(from, to);
        }
    }

    /// Removes and returns the earliest part.
    pub(super) fn pop_first(&mut self) -> Option<QueuePart> {
        self.0.pop_first()
    }

    /// The due time at which the earliest part begins.
    pub(super) fn first(&self) -> Option<i64> {
        self.0.first_key_value().map(|((due_at, _), _)| *due_at)
    }
}

/// The state of a webhook that has due deliveries.
#[derive(Default)]
pub(super) struct Endpoint {
    pub(super) ready: VecDeque<PendingDelivery>,
    pub(super) unread: UnreadParts,
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
        [ready, self.unread.first(), self.reading].into_iter().flatten().min()
    }

    pub(super) fn is_idle(&self) -> bool {
        let has_unread = self.is_read || self.unread.first().is_some();
        self.ready.is_empty() && !has_unread && self.waiting.is_none() && self.out.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::delivery::Delivery;

    #[test]
    fn parts_are_read_once_and_in_order() {
        let at = |due_at: i64| (due_at, String::new());
        let mut unread = UnreadParts::default();
        for part in [(at(40), 49), (at(20), 29), (at(20), 20), (at(25), 29), (at(45), i64::MAX), (at(60), i64::MAX)] {
            unread.add(part);
        }
        assert_eq!(unread.first(), Some(20));
        let parts: Vec<_> = std::iter::from_fn(|| unread.pop_first()).collect();
        assert_eq!(parts, [(at(20), 29), (at(40), 49), (at(45), i64::MAX)]);
        unread.add((at(20), 29));
        unread.add((at(10), i64::MAX));
        assert_eq!((unread.pop_first(), unread.first()), (Some((at(10), i64::MAX)), None));
    }

    fn due(due_at: i64) -> PendingDelivery {
        let delivery = Delivery { next_attempt_at: Some(due_at), ..Delivery::default() };
        PendingDelivery { delivery, body: Bytes::new(), erasure: 0, epoch: 1 }
    }

    #[test]
    fn places_are_earned_by_successes_that_leave_others_waiting() {
        let mut endpoint = Endpoint::default();
        endpoint.note_outcome(true);
        assert_eq!(endpoint.places(), 4, "nothing waits");
        endpoint.ready.push_back(due(1));
        endpoint.note_outcome(true);
        assert_eq!(endpoint.places(), 5);
        (0..100).for_each(|_| endpoint.note_outcome(true));
        assert_eq!((endpoint.places(), endpoint.is_good()), (64, true));
        endpoint.note_outcome(false);
        assert_eq!((endpoint.places(), endpoint.is_good()), (34, false));
    }

    #[test]
    fn an_endpoint_is_slow_after_a_second_without_an_answer() {
        let mut endpoint = Endpoint::default();
        assert!(!endpoint.is_slow(i64::MAX));
        endpoint.out.insert((5, "del_1".to_owned()));
        endpoint.out.insert((900, "del_2".to_owned()));
        assert!(!endpoint.is_slow(1_005) && endpoint.is_slow(1_006));
        endpoint.out.clear();
        (0..3).for_each(|_| endpoint.note_outcome(false));
        assert!(endpoint.is_slow(0), "it fails");
    }

    #[test]
    fn the_first_due_time_is_that_of_any_row() {
        let mut endpoint = Endpoint::default();
        let known = |endpoint: &Endpoint| (endpoint.first_due(), endpoint.first(), endpoint.is_idle());
        assert_eq!(known(&endpoint), (None, None, true));
        endpoint.waiting = Some(50);
        assert_eq!(known(&endpoint), (None, Some(50), false));
        endpoint.unread.add(((60, String::new()), 70));
        assert_eq!(known(&endpoint), (Some(60), Some(50), false));
        endpoint.reading = Some(40);
        assert_eq!(known(&endpoint), (Some(40), Some(40), false));
        endpoint.ready.extend([due(30), due(20)]);
        assert_eq!(known(&endpoint), (Some(20), Some(20), false));
    }

    #[test]
    fn an_endpoint_with_anything_to_do_is_not_idle() {
        let changes: [fn(&mut Endpoint); 5] = [
            |endpoint| endpoint.ready.push_back(due(1)),
            |endpoint| endpoint.unread.add(((1, String::new()), 2)),
            |endpoint| endpoint.is_read = true,
            |endpoint| endpoint.waiting = Some(1),
            |endpoint| endpoint.out.extend([(1, "del_1".to_owned())]),
        ];
        for (number, change) in changes.into_iter().enumerate() {
            let mut endpoint = Endpoint::default();
            change(&mut endpoint);
            assert!(!endpoint.is_idle(), "change {number}");
        }
    }
}
