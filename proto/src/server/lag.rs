//! How long what is ready to run waits for its turn.

use std::{
    sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval},
};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// A look that lasts so long needs no second one that says the same.
const LONG: Duration = Duration::from_secs(1);
const NOTHING: u64 = u64::MAX;

/// How long what is ready to run waits for its turn, which shows overload before anything else does.
#[derive(Debug)]
pub(super) struct Lag {
    began: Instant,
    /// What waits longer is late.
    limit: Duration,
    /// How many looks in a row were late.
    late: AtomicU32,
    /// When the look began that has not ended, in milliseconds since `began`.
    looking_since: AtomicU64,
}

impl Lag {
    pub(super) fn new(limit: Duration) -> Self {
        Self { began: Instant::now(), limit, late: AtomicU32::new(0), looking_since: AtomicU64::new(NOTHING) }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(NOTHING)
    }

    /// Whether there is more to do than is done.
    pub(super) fn is_overload(&self) -> bool {
        let since = self.looking_since.load(Relaxed);
        let looking = if since == NOTHING { 0 } else { self.now_ms().saturating_sub(since) };
        is_overload(self.limit, self.late.load(Relaxed), Duration::from_millis(looking))
    }

    /// Looks again and again; never ends.
    pub(super) async fn watch(&self) {
        let mut every = interval(LOOK_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let since = self.now_ms();
            self.looking_since.store(since, Relaxed);
            // A task that comes from outside stands behind all that are ready; one that comes from here would not.
            let runtime = Handle::current();
            if let Ok(looking) = spawn_blocking(move || runtime.spawn(async {})).await {
                let _ = looking.await;
            }
            let late = u128::from(self.now_ms() - since) > self.limit.as_millis();
            self.late.store(if late { self.late.load(Relaxed).saturating_add(1) } else { 0 }, Relaxed);
            self.looking_since.store(NOTHING, Relaxed);
        }
    }
}

/// One late look is what a machine that stood still for a moment leaves: all is done soon after. Two in a row, or one that
/// does not end, are a queue.
fn is_overload(limit: Duration, late: u32, looking: Duration) -> bool {
    looking > limit.max(LONG) || late + u32::from(looking > limit) >= 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_that_the_machine_stood_still_is_no_overload() {
        let judged = |late, looking| is_overload(Duration::from_millis(300), late, Duration::from_millis(looking));
        for (late, looking, expected) in [
            (0, 0, false),
            (0, 301, false),
            (0, 1_000, false),
            (0, 1_001, true),
            (1, 0, false),
            (1, 300, false),
            (1, 301, true),
            (2, 0, true),
        ] {
            assert_eq!(judged(late, looking), expected, "{late} late, looking for {looking} ms");
        }
    }
}
