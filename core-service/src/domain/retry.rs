//! When a failed delivery attempt is made again.

use super::window::{HOUR_MS, MINUTE_MS};

/// Most attempts of a delivery.
pub const MAX_ATTEMPTS: i32 = 6;

/// Milliseconds from a failed attempt to the next; none after the last.
#[must_use]
pub const fn delay_after(attempt: i32) -> Option<i64> {
    match attempt {
        1 => Some(MINUTE_MS),
        2 => Some(5 * MINUTE_MS),
        3 => Some(30 * MINUTE_MS),
        4 => Some(2 * HOUR_MS),
        5 => Some(12 * HOUR_MS),
        _ => None,
    }
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
