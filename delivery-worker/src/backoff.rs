//! The wait before core is called again.

use std::time::Duration;

use thesis_net::clock::IdSource;

const FIRST_MS: u64 = 50;
const MAX_MS: u64 = 2_000;

/// The delay doubles with each failure. Its upper half is random, so that workers do not return together.
pub(crate) struct Backoff {
    next_ms: u64,
}

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self { next_ms: FIRST_MS }
    }

    pub(crate) fn next(&mut self, ids: &dyn IdSource) -> Duration {
        let mut random = [0];
        ids.fill(&mut random);
        let half = self.next_ms / 2;
        let delay = half + half * u64::from(random[0]) / 255;
        self.next_ms = (self.next_ms * 2).min(MAX_MS);
        Duration::from_millis(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Highest;

    impl IdSource for Highest {
        fn fill(&self, bytes: &mut [u8]) {
            bytes.fill(255);
        }
    }

    #[test]
    fn doubles_up_to_two_seconds() {
        let mut backoff = Backoff::new();
        let delays: Vec<_> = (0..8).map(|_| backoff.next(&Highest).as_millis()).collect();
        assert_eq!(delays, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    }
}
