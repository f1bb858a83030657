//! Windows of time: relative bounds, the plan's history window, buckets of the thesis index.

/// A day in milliseconds.
pub const DAY_MS: i64 = 86_400_000;
/// An hour in milliseconds.
pub const HOUR_MS: i64 = 3_600_000;
/// A minute in milliseconds.
pub const MINUTE_MS: i64 = 60_000;

/// A bound so little before the window counts as its start, since clients compute it with their own clock.
pub const HISTORY_GRACE_MS: i64 = 60_000;

/// Reads a span such as `90s`, `30m`, `1h`, `7d` in milliseconds.
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

/// The lower bound of a read and whether it reaches too far back.
///
/// # Errors
/// `HistoryLimit` when an explicit bound lies before the window, beyond the grace.
pub fn lower_bound(explicit: Option<i64>, window_start: i64) -> Result<i64, HistoryLimit> {
    match explicit {
        Some(bound) if bound < window_start - HISTORY_GRACE_MS => Err(HistoryLimit),
        Some(bound) => Ok(bound.max(window_start)),
        None => Ok(window_start),
    }
}

/// The plan's history window does not reach so far back.
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
        for wrong in ["", "s", "1", "1w", "-1h", "1.5h", "+1h", "1 h", "9999999999d", "١h"] {
            assert_eq!(parse_span(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_bound_just_before_the_window_counts_as_its_start() {
        assert_eq!(lower_bound(None, 1_000_000), Ok(1_000_000));
        assert_eq!(lower_bound(Some(2_000_000), 1_000_000), Ok(2_000_000));
        assert_eq!(lower_bound(Some(940_000), 1_000_000), Ok(1_000_000));
        assert_eq!(lower_bound(Some(939_999), 1_000_000), Err(HistoryLimit));
    }
}
