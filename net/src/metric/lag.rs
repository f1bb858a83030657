//! The lag of a log's followers, in time.

use std::collections::VecDeque;

use tokio::time::Instant;

/// Maximum remembered heads of a log.
const MAX_ENDS: usize = 64;

/// The age of the first entry that a follower of a log has not reached.
#[derive(Debug, Default)]
pub struct FollowerLag {
    /// Ends of the log that the follower has not reached, each with the time when it was first seen.
    ends: VecDeque<(u64, Instant)>,
}

impl FollowerLag {
    /// The lag in seconds; 0 when the follower has reached the head. Takes the current head and the reached position.
    pub fn seconds(&mut self, head: u64, reached: u64) -> f64 {
        while self.ends.front().is_some_and(|(end, _)| *end <= reached) {
            self.ends.pop_front();
        }
        if self.ends.len() >= MAX_ENDS {
            // Keeps every second end, but not the first: its entries count from the next end.
            let mut is_kept = false;
            self.ends.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
        }
        if head > self.ends.back().map_or(reached, |(end, _)| *end) {
            self.ends.push_back((head, Instant::now()));
        }
        self.ends.front().map_or(0.0, |(_, since)| since.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_follower_is_behind_until_it_reaches_what_it_missed() {
        let mut lag = FollowerLag::default();
        let wait = async || tokio::time::advance(Duration::from_secs(3)).await;
        assert_eq!(lag.seconds(5, 5), 0.0);
        assert_eq!(lag.seconds(7, 5), 0.0);
        wait().await;
        assert_eq!(lag.seconds(9, 6), 3.0);
        wait().await;
        // The earlier end is reached. The next one is not, and is some seconds old.
        assert_eq!(lag.seconds(9, 7), 3.0);
        wait().await;
        assert_eq!(lag.seconds(9, 8), 6.0);
        assert_eq!(lag.seconds(9, 9), 0.0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_steady_lag_is_steady_and_a_long_one_takes_little_room() {
        let mut lag = FollowerLag::default();
        for head in 2..100 {
            let seconds = lag.seconds(head, head - 2);
            assert!(head < 4 || seconds == 2.0, "{head}: {seconds}");
            tokio::time::advance(Duration::from_secs(2)).await;
        }
        let mut lag = FollowerLag::default();
        for sample in 0..10_000_u32 {
            assert_eq!(lag.seconds(u64::from(sample) + 1, 0), f64::from(sample) * 2.0);
            assert!(lag.ends.len() <= MAX_ENDS);
            tokio::time::advance(Duration::from_secs(2)).await;
        }
    }
}
