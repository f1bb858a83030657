//! Time and randomness as arguments, so that a test of hours takes milliseconds and a run can be repeated.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

/// A source of time.
pub trait Clock: Send + Sync + 'static {
    /// Unix time in milliseconds.
    fn now_ms(&self) -> i64;

    /// Unix time in microseconds.
    fn now_us(&self) -> i64 {
        self.now_ms() * 1_000
    }
}

/// A shared clock.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        self.now_us() / 1_000
    }

    #[expect(clippy::disallowed_methods, reason = "the one place where ambient time enters")]
    fn now_us(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }
}

/// A source of random bytes for ids, keys and secrets.
pub trait IdSource: Send + Sync + 'static {
    /// Fills the slice.
    fn fill(&self, bytes: &mut [u8]);
}

/// An array of random bytes.
pub fn random<const N: usize>(ids: &dyn IdSource) -> [u8; N] {
    let mut bytes = [0; N];
    ids.fill(&mut bytes);
    bytes
}

/// A shared source of random bytes.
pub type SharedIdSource = Arc<dyn IdSource>;

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemIdSource;

impl IdSource for SystemIdSource {
    #[expect(clippy::disallowed_methods, reason = "the one place where ambient randomness enters")]
    fn fill(&self, bytes: &mut [u8]) {
        getrandom::fill(bytes).expect("an operating system without randomness cannot run this service");
    }
}
