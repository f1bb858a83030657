//! How often the log tells of a trouble that lasts, such as a core that is away.

use std::time::Duration;

use tokio::time::Instant;

/// Least time between two log lines about a trouble.
const TELL_AGAIN: Duration = Duration::from_mins(1);

/// A trouble that may last or come back.
#[derive(Debug, Default)]
pub struct Trouble {
    /// When the log last told of it.
    told_at: Option<Instant>,
    /// Whether that is the last that the log told.
    is_told: bool,
}

impl Trouble {
    /// Notes a failure. Returns whether the log should tell of it.
    pub fn goes_on(&mut self) -> bool {
        let tells = self.told_at.is_none_or(|told| told.elapsed() >= TELL_AGAIN);
        if tells {
            (self.told_at, self.is_told) = (Some(Instant::now()), true);
        }
        tells
    }

    /// Notes a success. Returns whether the log should tell that the trouble is over.
    pub const fn ends(&mut self) -> bool {
        std::mem::replace(&mut self.is_told, false)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_trouble_is_told_once_a_minute_at_most_and_its_end_once() {
        let moment = Duration::from_secs(1);
        let mut trouble = Trouble::default();
        assert!(!trouble.ends());
        assert!(trouble.goes_on() && !trouble.goes_on());
        assert!(trouble.ends() && !trouble.ends());
        // It comes back within the minute, and lasts.
        advance(TELL_AGAIN - moment).await;
        assert!(!trouble.goes_on() && !trouble.ends());
        advance(moment).await;
        assert!(trouble.goes_on() && !trouble.goes_on());
        advance(TELL_AGAIN).await;
        assert!(trouble.goes_on() && trouble.ends());
    }
}
