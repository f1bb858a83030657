//! How long a core has not been heard, and when that is told.

use std::time::Duration;

use tokio::time::Instant;

use crate::replicas::members::GONE_MS;

/// Longest time that a core is not heard before this is told. One that died no longer counts as a core by then: its last
/// beat is seen up to a second late, and each look for dead cores is half a second after the one before. So the way to
/// the core is at fault.
const PATIENCE: Duration = Duration::from_millis(GONE_MS.unsigned_abs() + 3_000);

/// A time in which a core is not heard.
pub(super) struct Silence {
    since: Instant,
    is_told: bool,
}

impl Silence {
    /// One that begins.
    pub(super) fn since(now: Instant) -> Self {
        Self { since: now, is_told: false }
    }

    /// True if it has lasted too long, the first time that this is seen.
    pub(super) fn is_to_be_told(&mut self, now: Instant) -> bool {
        now.duration_since(self.since) >= PATIENCE && !std::mem::replace(&mut self.is_told, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_silence_is_told_once() {
        let begun = Instant::now();
        let mut silence = Silence::since(begun);
        let mut told_after = |millis| silence.is_to_be_told(begun + Duration::from_millis(millis));
        assert!(!told_after(0) && !told_after(13_999));
        assert!(told_after(14_000) && !told_after(14_001) && !told_after(3_600_000));
    }
}
