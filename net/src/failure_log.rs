//! Limits how often the log reports a failure that lasts, such as an unreachable core.

use std::time::Duration;

use tokio::time::Instant;

/// Minimum time between two log lines about the same failure.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// The log state of a failure that may last or come back.
#[derive(Debug, Default)]
pub struct FailureLog {
    /// Time of the last log line about the failure.
    logged_at: Option<Instant>,
    /// True if the last log line reported the failure, and none its end.
    is_logged: bool,
}

impl FailureLog {
    /// Notes a failure. Returns true if it should be logged.
    pub fn note_failure(&mut self) -> bool {
        let is_due = self.logged_at.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL);
        if is_due {
            (self.logged_at, self.is_logged) = (Some(Instant::now()), true);
        }
        is_due
    }

    /// Notes a success. Returns true if the end of the failure should be logged.
    pub const fn note_success(&mut self) -> bool {
        std::mem::replace(&mut self.is_logged, false)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_failure_is_logged_once_a_minute_and_its_end_once() {
        let moment = Duration::from_secs(1);
        let mut failure_log = FailureLog::default();
        assert!(!failure_log.note_success());
        assert!(failure_log.note_failure() && !failure_log.note_failure());
        assert!(failure_log.note_success() && !failure_log.note_success());
        // It comes back within the minute, and lasts.
        advance(LOG_INTERVAL - moment).await;
        assert!(!failure_log.note_failure() && !failure_log.note_success());
        advance(moment).await;
        assert!(failure_log.note_failure() && !failure_log.note_failure());
        advance(LOG_INTERVAL).await;
        assert!(failure_log.note_failure() && failure_log.note_success());
    }
}
