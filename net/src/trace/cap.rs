//! The cap on traces whose sampling callers request.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum sampled traces that callers can begin in a second.
pub(super) const MAX_FORCED: u64 = 20;
/// Bits of the count beside the second.
const COUNT_BITS: u32 = 16;

/// Counts a second's traces. The second and its count are one word, so it needs no lock.
#[derive(Debug, Default)]
pub(super) struct Cap(AtomicU64);

impl Cap {
    /// An unused cap.
    pub(super) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Takes one of the traces of this second, if one is left.
    pub(super) fn take(&self, now_ms: i64) -> bool {
        let second = now_ms.div_euclid(1_000).unsigned_abs() << COUNT_BITS;
        let taken = self.0.fetch_update(Relaxed, Relaxed, |word| {
            let count = if word >> COUNT_BITS << COUNT_BITS == second { word - second } else { 0 };
            (count < MAX_FORCED).then_some(second + count + 1)
        });
        taken.is_ok()
    }
}
