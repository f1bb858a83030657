//! A replay of past events: its pace, its end, and its slot at core.
//!
//! A replay is a subscription that begins far back. It reads pages of the log like a subscription that lags. A paced
//! replay also waits until its next event is due. The log's time advances since the opening by the elapsed time,
//! multiplied by the speed. When it has caught up with the present, or all events are read, the replay is over and the
//! subscription is live.

use std::{
    any::Any,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use thesis_net::metric::InProgress;
use thesis_proto::{time::to_millis, v1};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::{metrics::REPLAYING, ring::Entry};

/// Holds the slot of a replay at core, and releases it when the last copy is dropped.
pub(crate) type SlotGuard = Arc<dyn Any + Send + Sync>;

/// A replay that is not over.
pub(crate) struct Replay {
    pace: Option<Pace>,
    /// True if it ends at a position.
    ends: bool,
    timer: Pin<Box<Sleep>>,
    /// Releases the slot at core when the replay is over.
    _slot: Option<SlotGuard>,
    _replays: InProgress,
}

impl Replay {
    pub(crate) fn new(begun: &v1::StreamReplay, slot: Option<SlotGuard>) -> Self {
        let now = Instant::now();
        let pace = begun.speed.map(|speed| {
            let [start_ms, opened_at] = [&begun.start, &begun.opened_at].map(|time| time.as_ref().map_or(0, to_millis));
            Pace::new(start_ms, opened_at, speed, now)
        });
        let (timer, replays) = (Box::pin(sleep_until(now)), InProgress::begin(REPLAYING.one()));
        Self { pace, ends: !begun.ends.is_empty(), timer, _slot: slot, _replays: replays }
    }

    /// True if it ends at a position and does not continue live.
    pub(crate) fn ends(&self) -> bool {
        self.ends
    }

    /// Returns the gate of the present moment. It is open if there is no pace, or if the pace has caught up.
    pub(crate) fn gate(&self) -> Gate<'_> {
        let now = Instant::now();
        Gate { pace: self.pace.as_ref().filter(|pace| !pace.has_caught_up(now)).map(|pace| (pace, now)) }
    }

    /// Ready when an event of this time is due. Otherwise the task wakes then.
    pub(crate) fn poll_due(&mut self, created_at: i64, context: &mut Context<'_>) -> Poll<()> {
        let Some(due_at) = self.pace.as_ref().map(|pace| pace.due_at(created_at)) else { return Poll::Ready(()) };
        if due_at <= Instant::now() {
            return Poll::Ready(());
        }
        if self.timer.deadline() != due_at {
            self.timer.as_mut().reset(due_at);
        }
        self.timer.as_mut().poll(context)
    }
}

/// The pace of a replay: how the log's time follows from the present.
#[derive(Debug)]
struct Pace {
    /// The time of the log at the opening, in unix milliseconds.
    start_ms: i64,
    began: Instant,
    speed: f64,
    /// The moment from which all events are due at once; `None` if it never comes.
    live_at: Option<Instant>,
}

impl Pace {
    fn new(start_ms: i64, opened_at: i64, speed: f64, began: Instant) -> Self {
        let until_live = log_time(opened_at - start_ms).as_secs_f64() / (speed - 1.0);
        // A speed just above 1 gives a time too long for `Duration`, and a speed below 1 a negative one. Neither ever
        // catches up.
        let until_live = Duration::try_from_secs_f64(until_live).ok();
        let live_at = until_live.filter(|_| speed > 1.0).and_then(|until_live| began.checked_add(until_live));
        Self { start_ms, began, speed, live_at }
    }

    fn has_caught_up(&self, now: Instant) -> bool {
        self.live_at.is_some_and(|live_at| live_at <= now)
    }

    fn due_at(&self, created_at: i64) -> Instant {
        let due_at = self.began + log_time(created_at - self.start_ms).div_f64(self.speed);
        self.live_at.map_or(due_at, |live_at| due_at.min(live_at))
    }
}

/// Converts a difference of the log's times, in milliseconds. A negative one becomes zero.
fn log_time(ms: i64) -> Duration {
    Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

/// Lets only due events pass.
#[derive(Clone, Copy)]
pub(crate) struct Gate<'a> {
    pace: Option<(&'a Pace, Instant)>,
}

impl Gate<'_> {
    /// Lets all events pass.
    pub(crate) const OPEN: Self = Self { pace: None };

    /// True if events have to wait until they are due.
    pub(crate) fn is_paced(&self) -> bool {
        self.pace.is_some()
    }

    pub(crate) fn is_due(&self, entry: &Entry) -> bool {
        self.pace.is_none_or(|(pace, now)| pace.due_at(entry.created_at) <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: i64 = 1_000_000;

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[tokio::test(start_paused = true)]
    async fn events_are_due_by_their_distance_divided_by_the_speed() {
        let began = Instant::now();
        for (speed, after) in [(0.1, 60_000), (1.0, 6_000), (4.0, 1_500), (60.0, 100)] {
            let pace = Pace::new(START, START + 86_400_000, speed, began);
            assert_eq!(pace.due_at(START + 6_000), began + ms(after), "{speed}");
            assert_eq!(pace.due_at(START - 1), began, "what was before the start is due at once");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_fast_replay_catches_up_with_the_present_and_a_slow_one_never() {
        let began = Instant::now();
        // After ten seconds the log's time is twenty seconds later, as is the present.
        let pace = Pace::new(START, START + 10_000, 2.0, began);
        assert!(!pace.has_caught_up(began + ms(9_999)));
        assert!(pace.has_caught_up(began + ms(10_000)));
        assert_eq!(pace.due_at(START + 90_000), began + ms(10_000));
        for speed in [0.5, 1.0, 1.0 + f64::EPSILON] {
            assert!(!Pace::new(START, START + 10_000, speed, began).has_caught_up(began + ms(1_000_000_000)));
        }
    }
}
