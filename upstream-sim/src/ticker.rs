//! The steady stream of the world's life.

use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::shared::{Shared, Sim};

/// Interval of the world's changes.
const TICK_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum theses that are made while requests wait.
const MAX_SLICE: usize = 200;
/// Maximum time that is caught up after a pause of the machine.
const MAX_PAUSE_MS: i64 = 2_000;

/// Lives until the simulator stops.
pub(crate) async fn run(sim: Sim) {
    let mut every = interval(TICK_INTERVAL);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last = sim.clock.now_ms();
    let mut due = 0.0;
    loop {
        tokio::select! {
            () = sim.stop.cancelled() => return,
            _ = every.tick() => {}
        }
        let now = sim.clock.now_ms();
        due += sim.rate() * (now - last).clamp(0, MAX_PAUSE_MS) as f64 / 1_000.0;
        last = now;
        let theses = due as usize;
        due -= theses as f64;
        live(&sim, theses).await;
        sim.release();
    }
}

async fn live(sim: &Shared, theses: usize) {
    let mut left = theses;
    while left > 0 {
        let slice = left.min(MAX_SLICE);
        sim.change(|world, now, publish| {
            for _ in 0..slice {
                world.live(now, publish);
            }
        });
        left -= slice;
        tokio::task::yield_now().await;
    }
}
