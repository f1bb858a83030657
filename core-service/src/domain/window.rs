//! Windows of time: relative bounds, and how far back a read reaches.

use super::dataset::Dataset;

/// A day in milliseconds.
pub const DAY_MS: i64 = 86_400_000;
/// An hour in milliseconds.
pub const HOUR_MS: i64 = 3_600_000;
/// A minute in milliseconds.
pub const MINUTE_MS: i64 = 60_000;

/// Maximum difference between the clocks of cores, in milliseconds.
pub const CLOCK_SKEW_MS: i64 = 2_000;

/// A bound may be this long before the window and still counts as its start, since clients compute it with their own
/// clock, in milliseconds.
const HISTORY_GRACE_MS: i64 = 60_000;
/// A time before every real one, and far enough from the lowest number for calculations.
const EVER: i64 = i64::MIN / 2;

/// Parses a span such as `90s`, `30m`, `1h`, `7d` into milliseconds.
#[must_use]
pub fn parse_span(text: &str) -> Option<i64> {
    let unit = match text.as_bytes().last()? {
        b's' => 1_000,
        b'm' => MINUTE_MS,
        b'h' => HOUR_MS,
        b'd' => DAY_MS,
        _ => return None,
    };
    let digits = &text[..text.len() - 1];
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse::<i64>().ok()?.checked_mul(unit)
}

/// Returns whether a time is in the history window, or less than the grace before it.
#[must_use]
pub const fn is_in_history(at: i64, window_start: i64) -> bool {
    at >= window_start - HISTORY_GRACE_MS
}

/// The lower bound of a read, inclusive. The plan's history window does not cut off the sandbox; an explicit bound
/// does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Floor {
    sandbox: i64,
    others: i64,
}

impl Floor {
    /// No bound at all.
    pub const NONE: Self = Self::at(EVER);

    /// The same bound for all datasets.
    pub const fn at(bound: i64) -> Self {
        Self { sandbox: bound, others: bound }
    }

    /// Returns the lower bound of a first page. An explicit bound before the window by more than the grace is refused.
    pub fn first(explicit: Option<i64>, window_start: i64) -> Result<Self, HistoryLimit> {
        match explicit {
            Some(bound) if !is_in_history(bound, window_start) => Err(HistoryLimit),
            Some(bound) => Ok(Self { sandbox: bound.max(window_start), others: bound.max(window_start) }),
            None => Ok(Self { sandbox: EVER, others: window_start }),
        }
    }

    /// Returns the lower bound of a later page, which its cursor carries from the first page. The window has moved on
    /// since; the cursor reaches back before it by the grace at most.
    #[must_use]
    pub fn later(carried: i64, was_explicit: bool, window_start: i64) -> Self {
        let sandbox = if was_explicit { carried } else { EVER };
        Self { sandbox, others: carried.max(window_start - HISTORY_GRACE_MS) }
    }

    /// Returns the bound that a cursor carries.
    #[must_use]
    pub const fn carried(&self) -> i64 {
        self.others
    }

    /// Returns the bound for rows of a dataset, in unix milliseconds.
    #[must_use]
    pub fn bound_for(&self, dataset: &Dataset) -> i64 {
        if *dataset == Dataset::Sandbox { self.sandbox } else { self.others }
    }
}

/// A bound before the plan's history window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLimit;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans() {
        assert_eq!(parse_span("90s"), Some(90_000));
        assert_eq!(parse_span("30m"), Some(1_800_000));
        assert_eq!(parse_span("1h"), Some(3_600_000));
        assert_eq!(parse_span("7d"), Some(604_800_000));
        assert_eq!(parse_span("999999999s"), Some(999_999_999_000));
        for wrong in ["", "s", "1", "1w", "-1h", "1.5h", "+1h", "1 h", "9999999999d", "١h"] {
            assert_eq!(parse_span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_bound_just_before_the_window_counts_as_its_start() {
        let both = |bound| Ok(Floor { sandbox: bound, others: bound });
        assert_eq!(Floor::first(Some(2_000_000), 1_000_000), both(2_000_000));
        assert_eq!(Floor::first(Some(940_000), 1_000_000), both(1_000_000));
        assert_eq!(Floor::first(Some(939_999), 1_000_000), Err(HistoryLimit));
        assert_eq!(Floor::first(Some(EVER), 1_000_000), Err(HistoryLimit));
    }

    #[test]
    fn the_window_does_not_cut_off_the_sandbox() {
        let project = Dataset::of_project("prj_1");
        let floor = Floor::first(None, 1_000_000).unwrap();
        assert_eq!(
            [&Dataset::Sandbox, &Dataset::Live, &project].map(|it| floor.bound_for(it)),
            [EVER, 1_000_000, 1_000_000]
        );
        let long_ago = i64::from(i32::MIN) * DAY_MS;
        assert!([&Dataset::Sandbox, &Dataset::Live].iter().all(|dataset| Floor::NONE.bound_for(dataset) < long_ago));
        let floor = Floor::first(Some(1_500_000), 1_000_000).unwrap();
        assert_eq!([&Dataset::Sandbox, &project].map(|dataset| floor.bound_for(dataset)), [1_500_000; 2]);
    }

    #[test]
    fn later_pages_keep_the_bound_of_the_first() {
        for explicit in [None, Some(1_000_000), Some(2_000_000)] {
            let first = Floor::first(explicit, 1_000_000).unwrap();
            assert_eq!(Floor::later(first.carried(), explicit.is_some(), 1_000_000 + HISTORY_GRACE_MS), first);
        }
        // An old cursor shows no more of a project than the window does; the sandbox stays.
        let floor = Floor::later(1_000_000, true, 9_000_000);
        assert_eq!(
            (floor.bound_for(&Dataset::Sandbox), floor.bound_for(&Dataset::Live)),
            (1_000_000, 9_000_000 - HISTORY_GRACE_MS)
        );
    }
}
