//! Observes whether the cluster answers at all.
//!
//! A core that has heard nothing from the cluster for a second counts it as away: waiting callers get 503 at once, and
//! the core recovers by itself.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval},
};

/// Interval between two checks for responses.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Number of checks in a row without a response after which the cluster counts as away. A core sends many requests a
/// second, so a second of silence is not by chance.
const MAX_SILENT_CHECKS: u32 = 10;

pub(super) struct Availability {
    answered: AtomicBool,
    away: watch::Sender<bool>,
}

impl Availability {
    /// Starts the checks, which run until this is dropped.
    pub(super) fn start() -> Arc<Self> {
        let availability = Arc::new(Self { answered: AtomicBool::new(true), away: watch::Sender::new(false) });
        let weak = Arc::downgrade(&availability);
        tokio::spawn(async move {
            let mut checks = interval(POLL_INTERVAL);
            // Checks that this process misses because it is busy say nothing about the cluster.
            checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut silent = 0;
            loop {
                checks.tick().await;
                let Some(availability) = weak.upgrade() else { return };
                silent = if availability.answered.swap(false, Ordering::Relaxed) { 0 } else { silent + 1 };
                availability.set_away(silent >= MAX_SILENT_CHECKS);
            }
        });
        availability
    }

    /// Notes a valid response of the cluster.
    pub(super) fn note_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    /// A channel that is true while the cluster is away.
    pub(super) fn away(&self) -> watch::Receiver<bool> {
        self.away.subscribe()
    }

    fn set_away(&self, is: bool) {
        if self.away.send_if_modified(|away| std::mem::replace(away, is) != is) {
            if is {
                tracing::error!("the cluster does not answer any more");
            } else {
                tracing::info!("the cluster answers again");
            }
        }
    }
}
