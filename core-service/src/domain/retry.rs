//! The retry table of failed delivery attempts.

use super::window::{HOUR_MS, MINUTE_MS};

/// Milliseconds from each failed attempt to the next.
const DELAYS: [i64; 5] = [MINUTE_MS, 5 * MINUTE_MS, 30 * MINUTE_MS, 2 * HOUR_MS, 12 * HOUR_MS];

/// Attempts of a delivery.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the table is short")]
pub const MAX_ATTEMPTS: i32 = DELAYS.len() as i32 + 1;

/// Returns the milliseconds from a failed attempt to the next; none after the last.
#[must_use]
pub fn delay_after(attempt: i32) -> Option<i64> {
    DELAYS.get(usize::try_from(attempt - 1).ok()?).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_attempts_by_the_table() {
        let minutes: Vec<_> = (1..=MAX_ATTEMPTS).map(|attempt| delay_after(attempt).map(|ms| ms / MINUTE_MS)).collect();
        assert_eq!(minutes, [Some(1), Some(5), Some(30), Some(120), Some(720), None]);
    }
}
