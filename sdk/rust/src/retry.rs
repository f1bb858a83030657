//! Decides which failed tries are repeated, and after which pause.

use std::time::Duration;

use crate::{
    error::{ApiError, Error},
    generated::errors::ErrorCode,
};

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// The caller decides about a longer wait. Limits per minute end earlier.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(120);

/// The pause after a failed try of a call; none if a repeat does not help. `attempt` is 1 after the first try.
pub(crate) fn pause_after(error: &Error, attempt: u32) -> Option<Duration> {
    let wait = error.api().and_then(|refusal| refusal.retry_after);
    open_pause_after(error, attempt).filter(|_| wait.is_none_or(|wait| wait <= MAX_RETRY_AFTER))
}

/// The same for a stream that was open, which waits for as long as the service says.
pub(crate) fn open_pause_after(error: &Error, attempt: u32) -> Option<Duration> {
    match error {
        Error::Api(refusal) => {
            is_transient(refusal).then(|| refusal.retry_after.unwrap_or_default().saturating_add(growing(attempt)))
        }
        Error::Connection(_) | Error::Timeout => Some(growing(attempt)),
        Error::Form(_) | Error::Usage(_) => None,
    }
}

/// True if the same request may succeed later.
fn is_transient(refusal: &ApiError) -> bool {
    match refusal.status {
        429 => refusal.code != Some(ErrorCode::QuotaExceeded),
        500 | 502 | 503 | 504 => true,
        _ => refusal.code == Some(ErrorCode::IdempotencyInProgress),
    }
}

/// Doubles the pause with each try. Its random part keeps many clients from returning at the same moment.
fn growing(attempt: u32) -> Duration {
    let pause = MAX_PAUSE.min(FIRST_PAUSE * 2_u32.pow(attempt.saturating_sub(1).min(10)));
    let mut random = [0; 1];
    // Without a random number the pause is the shortest one, which is good enough.
    getrandom::fill(&mut random).unwrap_or_default();
    pause / 2 + pause / 2 * u32::from(random[0]) / 256
}
