//! The steady stream of the world's life.

use std::time::Duration;

use tokio::{
    task::yield_now,
    time::{MissedTickBehavior, interval},
};

use crate::{
    shared::{Shared, Sim},
    world::{Publish, World},
};

/// Interval of the world's changes.
const TICK_INTERVAL: Duration = Duration::from_millis(10);
/// Maximum theses that are created while requests wait.
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
        repeat(&sim, theses, World::live).await;
        sim.release();
    }
}

/// Repeats a change of the world. Waiting requests get their turn between the changes.
pub(crate) async fn repeat(sim: &Shared, times: usize, change: fn(&mut World, i64, Publish<'_>)) {
    let mut left = times;
    while left > 0 {
        let slice = left.min(MAX_SLICE);
        sim.change(false, |world, now, publish| {
            for _ in 0..slice {
                change(world, now, publish);
            }
        });
        left -= slice;
        yield_now().await;
    }
}
