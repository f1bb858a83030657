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
    /// Days for which live webhooks of a new organization wait until their endpoint has answered a test; 0 for none.
    pub verify_endpoints_days: u32,
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

    /// Returns whether live webhooks of an organization that was created then need a verified endpoint.
    #[must_use]
    pub fn verifies_endpoints(&self, created_at: i64, now_ms: i64) -> bool {
        now_ms - created_at < i64::from(self.verify_endpoints_days) * DAY_MS
    }
}

/// Plans by name.
pub type Plans = BTreeMap<String, Plan>;

/// Returns a plan by name. An organization whose plan is no longer in the table has the smallest one.
#[must_use]
pub fn plan_named(plans: &Plans, name: &str) -> Option<Plan> {
    plans.get(name).or_else(|| plans.values().min_by_key(|plan| plan.requests_per_month)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        history_days: 7,
        concurrent_streams: 1,
        webhook_endpoints: 2,
        alerts: 2,
        verify_endpoints_days: 2,
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
    fn endpoints_of_young_organizations_are_verified() {
        let at = |age_ms: i64| PLAN.verifies_endpoints(100, 100 + age_ms);
        assert_eq!([0, 2 * DAY_MS - 1, 2 * DAY_MS].map(at), [true, true, false]);
        let never = Plan { verify_endpoints_days: 0, ..PLAN };
        assert!(!never.verifies_endpoints(100, 100));
    }

    #[test]
    fn each_class_has_its_own_rate() {
        let rates = [RateClass::Standard, RateClass::Heavy, RateClass::Verify].map(|class| PLAN.per_minute(class));
        assert_eq!(rates, [5, 6, 8]);
    }
}
