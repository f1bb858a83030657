//! The time without a connection to a core, and the warning about it.

use std::time::Duration;

use tokio::time::Instant;

use crate::replicas::members::GONE_MS;

/// Time without a connection after which this core warns. A core that died no longer counts by then: its last heartbeat
/// is seen up to a second late, and dead cores are checked every half second. So the connection is at fault.
const WARNING_DELAY: Duration = Duration::from_millis(GONE_MS.unsigned_abs() + 3_000);

/// A time without a connection to a core.
pub(super) struct Silence {
    since: Instant,
    is_reported: bool,
}

impl Silence {
    pub(super) fn since(now: Instant) -> Self {
        Self { since: now, is_reported: false }
    }

    /// Returns true once, when the silence has lasted too long.
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
