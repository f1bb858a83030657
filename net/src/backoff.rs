//! The wait before a failed action is retried.

use std::time::Duration;

use crate::clock::{IdSource, random};

/// Failures beyond this number no longer double the wait.
const MAX_DOUBLINGS: u32 = 31;

/// The wait doubles with each failure. Up to half of it is added at random, so that clients do not return together.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    /// A backoff that starts with `first` and doubles the wait up to `max`.
    pub const fn new(first: Duration, max: Duration) -> Self {
        Self { first, max, failures: 0 }
    }

    /// Uses the first wait that the other side requests, in milliseconds.
    pub fn set_first(&mut self, first_ms: u64) {
        self.first = Duration::from_millis(first_ms.max(1)).min(self.max);
    }

    /// Resets the wait after a success.
    pub const fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the next wait.
    pub fn next(&mut self, ids: &dyn IdSource) -> Duration {
        let [random] = random(ids);
        let wait = self.first.saturating_mul(1 << self.failures).min(self.max);
        self.failures = (self.failures + 1).min(MAX_DOUBLINGS);
        wait + wait / 2 * u32::from(random) / 255
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Duration = Duration::from_secs(1);
    const MAX_WAIT: Duration = Duration::from_secs(10);

    struct Always(u8);

    impl IdSource for Always {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }
    }

    fn waits(backoff: &mut Backoff, random: u8) -> Vec<u128> {
        (0..5).map(|_| backoff.next(&Always(random)).as_millis()).collect()
    }

    #[test]
    fn doubles_up_to_the_maximum() {
        assert_eq!(waits(&mut Backoff::new(FIRST, MAX_WAIT), 0), [1_000, 2_000, 4_000, 8_000, 10_000]);
        assert_eq!(waits(&mut Backoff::new(FIRST, MAX_WAIT), 255), [1_500, 3_000, 6_000, 12_000, 15_000]);
    }

    #[test]
    fn begins_as_the_other_side_tells_and_again_after_success() {
        let mut backoff = Backoff::new(FIRST, MAX_WAIT);
        backoff.set_first(500);
        assert_eq!(waits(&mut backoff, 0), [500, 1_000, 2_000, 4_000, 8_000]);
        backoff.reset();
        assert_eq!(waits(&mut backoff, 0)[0], 500);
        for (first_ms, first) in [(0, 1), (u64::MAX, 10_000)] {
            backoff.set_first(first_ms);
            backoff.reset();
            assert_eq!(waits(&mut backoff, 0)[0], first);
        }
        backoff.set_first(1);
        for _ in 0..100 {
            backoff.next(&Always(0));
        }
        assert_eq!(backoff.next(&Always(0)).as_millis(), 10_000);
    }
}
