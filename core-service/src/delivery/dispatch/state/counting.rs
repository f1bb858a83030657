//! Which reports are being counted.
//!
//! A report of an attempt that is out is counted alone: a repeated one that comes in the meantime has to be repeated
//! again. If a count fails, the next one takes the time of the first, so that it writes the same rows.

use std::sync::Arc;

use super::State;
use crate::domain::delivery::Delivery;

/// How far an attempt that is out has been counted.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counting {
    /// Time of the first report, in unix milliseconds.
    ended_at: Option<i64>,
    is_running: bool,
}

/// An attempt that is out, as this core handed it out.
#[derive(Clone, Debug)]
pub(in crate::delivery::dispatch) struct KnownAttempt {
    /// The delivery before the attempt.
    pub(in crate::delivery::dispatch) delivery: Arc<Delivery>,
    pub(in crate::delivery::dispatch) epoch: i64,
    /// Time of the first report, in unix milliseconds.
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
    /// Begins to count a report. [`Self::end_report`] ends it.
    pub(in crate::delivery::dispatch) fn begin_report(
        &mut self,
        delivery: &str,
        number: i32,
        now_ms: i64,
    ) -> ReportStart {
        let out = self.out.get_mut(delivery).filter(|out| out.delivery.attempt_count() + 1 == number);
        let Some(out) = out else { return ReportStart::Unknown };
        if out.counting.is_running {
            return ReportStart::Busy;
        }
        out.counting.is_running = true;
        let ended_at = *out.counting.ended_at.get_or_insert(now_ms);
        ReportStart::Out(KnownAttempt { delivery: Arc::clone(&out.delivery), epoch: out.epoch, ended_at })
    }

    /// Ends a count. A counted attempt is not out any more.
    pub(in crate::delivery::dispatch) fn end_report(&mut self, known: &KnownAttempt) {
        let out = self.out.get_mut(&known.delivery.id);
        if let Some(out) = out.filter(|out| Arc::ptr_eq(&out.delivery, &known.delivery)) {
            out.counting.is_running = false;
        }
    }

    /// True if an attempt of the delivery is out, or this one was reported lately.
    pub(in crate::delivery::dispatch) fn has_handed_out(&self, delivery: &str, number: i32) -> bool {
        self.out.contains_key(delivery) || self.settled.has(delivery, number)
    }
}
