//! How often the log tells of a trouble that lasts, such as a core that is away.

use std::time::Duration;

use tokio::time::Instant;

/// Least time between two log lines about a trouble.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// A trouble that may last or come back.
#[derive(Debug, Default)]
pub struct FailureLog {
    /// When the log last told of it.
    logged_at: Option<Instant>,
    /// Whether that is the last that the log told.
    is_logged: bool,
}

impl FailureLog {
    /// Notes a failure. Returns whether the log should tell of it.
    pub fn note_failure(&mut self) -> bool {
        let is_due = self.logged_at.is_none_or(|logged| logged.elapsed() >= LOG_INTERVAL);
        if is_due {
            (self.logged_at, self.is_logged) = (Some(Instant::now()), true);
        }
        is_due
    }

    /// Notes a success. Returns whether the log should tell that the trouble is over.
    pub const fn note_success(&mut self) -> bool {
        std::mem::replace(&mut self.is_logged, false)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_trouble_is_told_once_a_minute_at_most_and_its_end_once() {
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
