//! How long a core has not been heard, and when that is told.

use std::time::Duration;

use tokio::time::Instant;

use crate::replicas::members::GONE_MS;

/// Longest time that a core is not heard before this is told. One that died no longer counts as a core by then: its last
/// beat is seen up to a second late, and each look for dead cores is half a second after the one before. So the way to
/// the core is at fault.
const WARNING_DELAY: Duration = Duration::from_millis(GONE_MS.unsigned_abs() + 3_000);

/// A time in which a core is not heard.
pub(super) struct Silence {
    since: Instant,
    is_reported: bool,
}

impl Silence {
    /// One that begins.
    pub(super) fn since(now: Instant) -> Self {
        Self { since: now, is_reported: false }
    }

    /// True if it has lasted too long, the first time that this is seen.
    pub(super) fn take_warning(&mut self, now: Instant) -> bool {
        now.duration_since(self.since) >= WARNING_DELAY && !std::mem::replace(&mut self.is_reported, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_silence_is_reported_once() {
        let begun = Instant::now();
        let mut silence = Silence::since(begun);
        let mut warns_after = |millis| silence.take_warning(begun + Duration::from_millis(millis));
        assert!(!warns_after(0) && !warns_after(13_999));
        assert!(warns_after(14_000) && !warns_after(14_001) && !warns_after(3_600_000));
    }
}
