//! Work that may block, on threads of its own. A simulation runs it at once instead: otherwise the time that a thread
//! takes would decide an order.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{JoinError, spawn_blocking};

static IS_INLINE: AtomicBool = AtomicBool::new(false);

/// From now on such work runs at once in this process.
pub fn run_inline() {
    IS_INLINE.store(true, Ordering::Relaxed);
}

/// True if such work runs at once.
pub fn is_inline() -> bool {
    IS_INLINE.load(Ordering::Relaxed)
}

/// Runs work that may block.
///
/// # Errors
/// Fails when the work panics, or the runtime ends.
pub async fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, JoinError> {
    if is_inline() { Ok(work()) } else { spawn_blocking(work).await }
}
