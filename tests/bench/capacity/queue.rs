//! A queue with some processors, first come, first served; and its check against the known formulas.

use crate::{Failure, data::Random};

/// Nanoseconds since the beginning.
pub(super) type Time = u64;

/// A process or node: jobs wait for the first of its processors that is free.
pub(super) struct Station {
    free: Vec<Time>,
    busy: Time,
}

impl Station {
    pub(super) fn new(processors: usize) -> Self {
        Self { free: vec![0; processors], busy: 0 }
    }

    /// Takes a job; gives when it is done. Jobs must be given in the order of their times.
    pub(super) fn take(&mut self, now: Time, micros: f64) -> Time {
        let nanos = (micros * 1e3) as Time;
        self.busy += nanos;
        let mut first = 0;
        for (index, free) in self.free.iter().enumerate() {
            if *free < self.free[first] {
                first = index;
            }
        }
        self.free[first] = self.free[first].max(now) + nanos;
        self.free[first]
    }

    /// Takes a job that all processors share; gives when its last part is done.
    pub(super) fn share(&mut self, now: Time, micros: f64) -> Time {
        let parts = self.free.len();
        (0..parts).map(|_| self.take(now, micros / parts as f64)).max().unwrap_or(now)
    }

    /// The part of its processors' time in which they worked.
    pub(super) fn used(&self, time: Time) -> f64 {
        self.busy as f64 / (time as f64 * self.free.len() as f64)
    }
}

/// An exponentially distributed number of microseconds.
pub(super) fn exponential(random: &mut Random, mean: f64) -> f64 {
    let drawn = random.below(1 << 30) as f64 / f64::from(1 << 30);
    -mean * (1.0 - drawn).ln()
}

/// Refuses to go on unless the queue waits as long as the formulas say, at 60 % and at 80 %.
pub(super) fn check() -> Result<(), Failure> {
    for used in [0.6, 0.8] {
        // The mean time in the queue and in service, for a mean service of 1 ms.
        let random_service = 1e3 / (1.0 - used);
        let equal_service = 1e3 + 1e3 * used / (2.0 * (1.0 - used));
        let two_processors = 1e3 / (1.0 - used * used);
        for (name, processors, random_times, expected) in
            [("M/M/1", 1, true, random_service), ("M/D/1", 1, false, equal_service), ("M/M/2", 2, true, two_processors)]
        {
            let found = mean(processors, used, random_times);
            println!("{name} at {used}: {found:.0} µs simulated, {expected:.0} µs by the formula");
            if (found / expected - 1.0).abs() > 0.03 {
                return Err(format!("the queue is wrong: {name} at {used}").into());
            }
        }
    }
    Ok(())
}

/// The mean time of a job in the station, in microseconds.
fn mean(processors: usize, used: f64, random_times: bool) -> f64 {
    const JOBS: u32 = 1_000_000;
    let mut random = Random::new(1);
    let mut station = Station::new(processors);
    let (mut now, mut sum) = (0.0, 0.0);
    for _ in 0..JOBS {
        now += exponential(&mut random, 1e3 / (used * processors as f64));
        let service = if random_times { exponential(&mut random, 1e3) } else { 1e3 };
        let arrived = (now * 1e3) as Time;
        sum += (station.take(arrived, service) - arrived) as f64 / 1e3;
    }
    sum / f64::from(JOBS)
}
