//! Judges by its last attempts whether an endpoint is slow.
//!
//! Failing and hanging endpoints share a lane of a quarter of the workers' places, with one attempt each in 100 ms,
//! until an attempt succeeds. Every endpoint begins with four places and earns up to 64 by responses that leave others
//! waiting. An attempt without a response for 300 ms leaves its place to another.

/// Failures in a row that make an endpoint slow.
const SLOW_AFTER_FAILURES: u32 = 3;
/// Number of attempts that the history holds.
const HISTORY: u32 = 20;
const MASK: u32 = (1 << HISTORY) - 1;

/// Outcomes of the last attempts at an endpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Health {
    /// One bit for each attempt, the last one lowest; 1 is a failure.
    failures: u32,
    seen: u32,
    is_slow: bool,
}

impl Health {
    /// Notes how an attempt ended. An endpoint that failed three times in a row, or in half of its last 20 attempts, is
    /// slow until an attempt succeeds.
    pub(super) fn note_outcome(&mut self, succeeded: bool) {
        self.failures = (self.failures << 1 | u32::from(!succeeded)) & MASK;
        self.seen = (self.seen + 1).min(HISTORY);
        let row = (1 << SLOW_AFTER_FAILURES) - 1;
        let often = self.seen == HISTORY && self.failures.count_ones() * 2 >= HISTORY;
        self.is_slow = !succeeded && (self.is_slow || self.failures & row == row || often);
    }

    pub(super) const fn is_slow(self) -> bool {
        self.is_slow
    }

    pub(super) const fn is_good(self) -> bool {
        self.failures == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(outcomes: &[bool]) -> bool {
        let mut health = Health::default();
        outcomes.iter().for_each(|succeeded| health.note_outcome(*succeeded));
        health.is_slow()
    }

    #[test]
    fn three_failures_in_a_row_are_slow_until_a_success() {
        assert!(!after(&[]) && !after(&[false, false]) && !after(&[false, false, true, false, false]));
        assert!(after(&[false, false, false]) && after(&[true, false, false, false, false]));
        assert!(!after(&[false, false, false, true]) && !after(&[false, false, false, true, false]));
    }

    #[test]
    fn half_of_the_last_twenty_is_slow() {
        let mixed = |length: usize| (0..length).map(|n| n % 2 == 0).collect::<Vec<_>>();
        assert!(after(&mixed(20)) && !after(&mixed(18)));
        assert!(!after(&[mixed(20), vec![true]].concat()));
    }

    #[test]
    fn what_lies_more_than_twenty_attempts_back_is_forgotten() {
        let mut health = Health::default();
        let mut note = |succeeded: bool, times: usize| {
            (0..times).for_each(|_| health.note_outcome(succeeded));
            (health.is_slow(), health.is_good())
        };
        assert_eq!(note(false, 12), (true, false));
        assert_eq!(note(true, 19), (false, false));
        assert_eq!(note(true, 1), (false, true));
        assert_eq!(note(false, 1), (false, false), "one in twenty");
    }

    #[test]
    fn less_than_half_of_the_last_twenty_is_not_slow() {
        // Nine failures, no three of them in a row, and the last attempt fails.
        let nine = (0..20).map(|n| n % 2 == 0 || n == 1).collect::<Vec<_>>();
        assert_eq!(nine.iter().filter(|succeeded| !**succeeded).count(), 9);
        assert!(!after(&nine));
    }
}
