//! How long to wait before the stream is opened again.

use std::time::Duration;

use thesis_net::clock::IdSource;

/// The first wait unless the service tells one, and the longest.
const FIRST_MS: u64 = 1_000;
const LONGEST_MS: u64 = 10_000;
/// After this many failures the wait is the longest, whatever the first was.
const MOST_DOUBLINGS: u32 = 14;

/// The wait doubles with each failure. Up to half of it is added at random, so that clients do not return together.
pub(super) struct Backoff {
    first_ms: u64,
    failures: u32,
}

impl Backoff {
    pub(super) const fn new() -> Self {
        Self { first_ms: FIRST_MS, failures: 0 }
    }

    /// Takes the first wait that the service tells.
    pub(super) fn take(&mut self, first_ms: u64) {
        self.first_ms = first_ms.clamp(1, LONGEST_MS);
    }

    /// Notes that the stream is open.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// The next wait.
    pub(super) fn next(&mut self, ids: &dyn IdSource) -> Duration {
        let mut random = [0];
        ids.fill(&mut random);
        let wait = (self.first_ms << self.failures).min(LONGEST_MS);
        self.failures = (self.failures + 1).min(MOST_DOUBLINGS);
        Duration::from_millis(wait + wait / 2 * u64::from(random[0]) / 255)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn doubles_up_to_the_longest() {
        assert_eq!(waits(&mut Backoff::new(), 0), [1_000, 2_000, 4_000, 8_000, 10_000]);
        assert_eq!(waits(&mut Backoff::new(), 255), [1_500, 3_000, 6_000, 12_000, 15_000]);
    }

    #[test]
    fn begins_as_the_service_tells_and_again_after_success() {
        let mut backoff = Backoff::new();
        backoff.take(500);
        assert_eq!(waits(&mut backoff, 0), [500, 1_000, 2_000, 4_000, 8_000]);
        backoff.reset();
        assert_eq!(waits(&mut backoff, 0)[0], 500);
        for (told, first) in [(0, 1), (u64::MAX, 10_000)] {
            backoff.take(told);
            backoff.reset();
            assert_eq!(waits(&mut backoff, 0)[0], first);
        }
        backoff.take(1);
        for _ in 0..100 {
            backoff.next(&Always(0));
        }
        assert_eq!(backoff.next(&Always(0)).as_millis(), 10_000);
    }
}
