//! Measures the time that a ready task waits for its turn.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    time::{Instant, MissedTickBehavior, interval},
};

use crate::blocking;

const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum total time of late probes in a row; more shows a queue. A machine that paused for a moment is late once and
/// soon has no queue.
const MOMENT_MS: u64 = 1_000;
const NOTHING: u64 = u64::MAX;

/// The time that a ready task waits for its turn, which is the first sign of overload.
#[derive(Debug)]
pub(super) struct Lag {
    began: Instant,
    /// Maximum wait that is not late.
    limit_ms: u64,
    /// Total time of the late probes since the last punctual one, in milliseconds.
    late_for: AtomicU64,
    /// Start of the current probe, in milliseconds since `began`.
    probe_since: AtomicU64,
}

impl Lag {
    pub(super) fn new(limit: Duration) -> Self {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(NOTHING);
        let (late_for, probe_since) = (AtomicU64::new(0), AtomicU64::new(NOTHING));
        Self { began: Instant::now(), limit_ms, late_for, probe_since }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(NOTHING)
    }

    /// True while tasks are late for longer than [`MOMENT_MS`].
    pub(super) fn is_overload(&self) -> bool {
        self.is_overload_at(self.now_ms())
    }

    fn is_overload_at(&self, now_ms: u64) -> bool {
        let probe_ms = now_ms.saturating_sub(self.probe_since.load(Relaxed));
        let late = if probe_ms > self.limit_ms { probe_ms } else { 0 };
        self.late_for.load(Relaxed).saturating_add(late) > MOMENT_MS
    }

    fn begin(&self, now_ms: u64) {
        self.probe_since.store(now_ms, Relaxed);
    }

    fn end(&self, now_ms: u64) {
        let probe_ms = now_ms.saturating_sub(self.probe_since.swap(NOTHING, Relaxed));
        let late = probe_ms > self.limit_ms;
        self.late_for.store(if late { self.late_for.load(Relaxed).saturating_add(probe_ms) } else { 0 }, Relaxed);
    }

    /// Probes repeatedly how long an empty task waits.
    pub(super) async fn watch(&self) {
        let mut every = interval(POLL_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            self.begin(self.now_ms());
            // A task from a blocking thread queues behind all that are ready; one from here would not.
            let runtime = Handle::current();
            if let Ok(probe) = blocking::run(move || runtime.spawn(async {})).await {
                let _ = probe.await;
            }
            self.end(self.now_ms());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_late_for_more_than_a_moment_is_overload() {
        let lag = Lag::new(Duration::from_millis(300));
        // One late probe.
        lag.begin(0);
        assert!(!lag.is_overload_at(600));
        lag.end(600);
        assert!(!lag.is_overload_at(5_000));
        // A second late probe passes the moment before it ends; a third follows.
        lag.begin(5_000);
        assert!(!lag.is_overload_at(5_400));
        assert!(lag.is_overload_at(5_401));
        lag.end(5_401);
        assert!(lag.is_overload_at(5_450));
        lag.begin(5_450);
        assert!(lag.is_overload_at(5_451));
        lag.end(5_750);
        assert!(!lag.is_overload_at(5_751), "that one was in time");
        // A probe that does not end.
        lag.begin(5_800);
        assert!(!lag.is_overload_at(6_800));
        assert!(lag.is_overload_at(6_801));
    }
}
