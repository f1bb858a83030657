//! The reports that are being counted.
//!
//! Reports of an attempt are counted one at a time: a repeated one that comes in the meantime has to be repeated again.
//! If a count fails, one that soon follows takes the time of the first, so that it writes the same rows. A later one
//! must not: the retry that the first has queued may have been due, read and removed.

use std::sync::Arc;

use super::State;
use crate::domain::{control::Webhook, delivery::Delivery};

/// Time for which repeated reports take the time of the first, in milliseconds. Every retry is due later.
const SAME_TIME_MS: i64 = 30_000;

/// An attempt that is out, as this core handed it out.
#[derive(Clone, Debug)]
pub(in crate::delivery::dispatch) struct KnownAttempt {
    /// The delivery before the attempt.
    pub(in crate::delivery::dispatch) delivery: Arc<Delivery>,
    /// The webhook as the attempt uses it.
    pub(in crate::delivery::dispatch) webhook: Arc<Webhook>,
    pub(in crate::delivery::dispatch) epoch: i64,
    /// Time of the report, in unix milliseconds.
    pub(in crate::delivery::dispatch) ended_at: i64,
}

/// The state of an attempt when its report comes.
pub(in crate::delivery::dispatch) enum ReportStart {
    Out(KnownAttempt),
    /// Another report of it is being counted.
    Busy,
    /// The attempt is not out.
    Unknown,
}

impl State {
    /// Begins to count a report. [`Self::end_report`] ends it, unless another report is being counted.
    pub(in crate::delivery::dispatch) fn begin_report(
        &mut self,
        delivery: &str,
        number: i32,
        now_ms: i64,
    ) -> ReportStart {
        if !self.counting.insert((delivery.to_owned(), number)) {
            return ReportStart::Busy;
        }
        let out = self.out.get_mut(delivery).filter(|out| out.delivery.attempt_count() + 1 == number);
        let Some(out) = out else { return ReportStart::Unknown };
        let ended_at = out.reported_at.filter(|at| now_ms - at < SAME_TIME_MS).unwrap_or(now_ms);
        out.reported_at = Some(ended_at);
        let (delivery, webhook) = (Arc::clone(&out.delivery), Arc::clone(&out.settings));
        ReportStart::Out(KnownAttempt { delivery, webhook, epoch: out.epoch, ended_at })
    }

    pub(in crate::delivery::dispatch) fn end_report(&mut self, delivery: &str, number: i32) {
        self.counting.remove(&(delivery.to_owned(), number));
    }

    /// True while a report of the attempt is being counted.
    pub(super) fn is_counting(&self, delivery: &str, number: i32) -> bool {
        self.counting.contains(&(delivery.to_owned(), number))
    }

    /// True if an attempt of the delivery is out, or this one was reported lately.
    pub(in crate::delivery::dispatch) fn has_handed_out(&self, delivery: &str, number: i32) -> bool {
        self.out.contains_key(delivery) || self.settled.has(delivery, number)
    }

    /// True if an attempt of the delivery is out, or a report of this one is being counted.
    pub(in crate::delivery::dispatch) fn is_under_way(&self, delivery: &str, number: i32) -> bool {
        self.out.contains_key(delivery) || self.is_counting(delivery, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{domain::retry::delay_after, tests::harness::NOON};

    fn ended_at(start: ReportStart) -> Option<i64> {
        match start {
            ReportStart::Out(known) => Some(known.ended_at),
            ReportStart::Busy | ReportStart::Unknown => None,
        }
    }

    #[test]
    fn a_report_that_is_repeated_late_has_a_time_of_its_own() {
        let delivery = Delivery { id: "del_1".to_owned(), next_attempt_at: Some(NOON), ..Delivery::default() };
        let mut state = State::default();
        state.send(1, Arc::new(delivery), Arc::default(), 1, (NOON, NOON + 15_000));
        let late = NOON + SAME_TIME_MS;
        assert!(Some(SAME_TIME_MS) < delay_after(1));
        for (now_ms, expected) in [(NOON, NOON), (late - 1, NOON), (late, late), (late + 1, late)] {
            assert_eq!(ended_at(state.begin_report("del_1", 1, now_ms)), Some(expected));
            assert!(matches!(state.begin_report("del_1", 1, now_ms), ReportStart::Busy));
            // Its report decides.
            state.give_back("del_1", 1, now_ms);
            state.end_report("del_1", 1);
        }
        assert!(state.is_under_way("del_1", 1));
        state.give_back("del_1", 1, late);
        assert!(!state.is_under_way("del_1", 1));
    }
}
