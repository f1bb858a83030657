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
const NOTHING: u64 = u64::MAX;

/// How long what is ready to run waits for its turn, which shows overload before anything else does.
#[derive(Debug)]
pub(super) struct Lag {
    began: Instant,
    /// What the last look found, in milliseconds.
    last_ms: AtomicU64,
    /// When the look began that has not ended, in milliseconds since `began`.
    looking_since: AtomicU64,
}

impl Lag {
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), last_ms: AtomicU64::new(0), looking_since: AtomicU64::new(NOTHING) }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(NOTHING)
    }

    /// Whether it is more than this.
    pub(super) fn exceeds(&self, limit: Duration) -> bool {
        let since = self.looking_since.load(Relaxed);
        let waited = if since == NOTHING { 0 } else { self.now_ms().saturating_sub(since) };
        u128::from(waited.max(self.last_ms.load(Relaxed))) > limit.as_millis()
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
            self.last_ms.store(self.now_ms() - since, Relaxed);
            self.looking_since.store(NOTHING, Relaxed);
        }
    }
}
