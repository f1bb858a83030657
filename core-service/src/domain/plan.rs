//! Plans: the limits of organizations.

use std::collections::BTreeMap;

use super::{operation::RateClass, window::DAY_MS};

/// The limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Days of history.
    pub history_days: u32,
    /// Open streams per project.
    pub concurrent_streams: u32,
    /// Webhooks per project and environment.
    pub webhook_endpoints: u32,
    /// Alerts per project and environment.
    pub alerts: u32,
    /// Test theses that a project keeps, at least 1; older ones are deleted.
    pub test_theses: u32,
    /// Requests a month per organization.
    pub requests_per_month: u64,
    /// Requests a minute of class standard, per project and environment.
    pub standard_per_minute: u32,
    /// Requests a minute of class heavy.
    pub heavy_per_minute: u32,
    /// Requests a minute of class verify.
    pub verify_per_minute: u32,
}

impl Plan {
    /// Returns the requests a minute of a class.
    #[must_use]
    pub const fn per_minute(&self, class: RateClass) -> u32 {
        match class {
            RateClass::Standard => self.standard_per_minute,
            RateClass::Heavy => self.heavy_per_minute,
            RateClass::Verify => self.verify_per_minute,
        }
    }

    /// Returns the start of the history window.
    #[must_use]
    pub fn window_start(&self, now_ms: i64) -> i64 {
        now_ms - i64::from(self.history_days) * DAY_MS
    }
}

/// Plans by name.
pub type Plans = BTreeMap<String, Plan>;

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        history_days: 7,
        concurrent_streams: 1,
        webhook_endpoints: 2,
        alerts: 2,
        test_theses: 3,
        requests_per_month: 4,
        standard_per_minute: 5,
        heavy_per_minute: 6,
        verify_per_minute: 8,
    };

    #[test]
    fn the_window_begins_some_days_ago() {
        assert_eq!(PLAN.window_start(10 * DAY_MS), 3 * DAY_MS);
    }

    #[test]
    fn each_class_has_its_own_rate() {
        let rates = [RateClass::Standard, RateClass::Heavy, RateClass::Verify].map(|class| PLAN.per_minute(class));
        assert_eq!(rates, [5, 6, 8]);
    }
}
