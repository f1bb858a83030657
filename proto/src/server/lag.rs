//! How long what is ready to run waits for its turn.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval},
};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A machine that stood still for a moment is late once and through with everything soon after; what is late for so long
/// is a queue.
const MOMENT_MS: u64 = 1_000;
const NOTHING: u64 = u64::MAX;

/// How long what is ready to run waits for its turn, which shows overload before anything else does. Times are
/// milliseconds since `began`.
#[derive(Debug)]
pub(super) struct Lag {
    began: Instant,
    /// What waits longer is late.
    limit_ms: u64,
    /// Since when every look was late.
    late_since: AtomicU64,
    /// When the look began that has not ended.
    looking_since: AtomicU64,
}

impl Lag {
    pub(super) fn new(limit: Duration) -> Self {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(NOTHING);
        let (late_since, looking_since) = (AtomicU64::new(NOTHING), AtomicU64::new(NOTHING));
        Self { began: Instant::now(), limit_ms, late_since, looking_since }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(NOTHING)
    }

    /// Whether there is more to do than is done.
    pub(super) fn is_overload(&self) -> bool {
        self.is_overload_at(self.now_ms())
    }

    fn is_overload_at(&self, now_ms: u64) -> bool {
        let looking = self.looking_since.load(Relaxed);
        let late = if now_ms.saturating_sub(looking) > self.limit_ms { looking } else { NOTHING };
        now_ms.saturating_sub(self.late_since.load(Relaxed).min(late)) > MOMENT_MS
    }

    fn begin(&self, now_ms: u64) {
        self.looking_since.store(now_ms, Relaxed);
    }

    fn end(&self, now_ms: u64) {
        let since = self.looking_since.load(Relaxed);
        let late = now_ms - since > self.limit_ms;
        self.late_since.store(if late { self.late_since.load(Relaxed).min(since) } else { NOTHING }, Relaxed);
        self.looking_since.store(NOTHING, Relaxed);
    }

    /// Looks again and again; never ends.
    pub(super) async fn watch(&self) {
        let mut every = interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            self.begin(self.now_ms());
            // A task that comes from outside stands behind all that are ready; one that comes from here would not.
            let runtime = Handle::current();
            if let Ok(looking) = spawn_blocking(move || runtime.spawn(async {})).await {
                let _ = looking.await;
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
        // One late look.
        lag.begin(0);
        assert!(!lag.is_overload_at(999));
        lag.end(600);
        assert!(!lag.is_overload_at(650));
        // Two, and a third that has not ended.
        lag.begin(650);
        assert!(!lag.is_overload_at(951));
        lag.end(980);
        assert!(lag.is_overload_at(1_001));
        lag.begin(1_030);
        assert!(lag.is_overload_at(1_031));
        lag.end(1_330);
        assert!(!lag.is_overload_at(1_331), "that one was in time");
        // One that does not end.
        lag.begin(1_380);
        assert!(!lag.is_overload_at(2_380));
        assert!(lag.is_overload_at(2_381));
    }
}
