//! The charts of latencies: a line for half of the measurements, and one for 99 % of them.

use thesis_proto::{time::to_millis, v1};

/// Number of minutes that a chart shows.
const MINUTES: i64 = 30;
const MINUTE_MS: i64 = 60_000;
/// Width of a minute in units of the drawing.
const STEP: f64 = 8.0;
/// Height of the drawing, and its free space above and below.
const HEIGHT: f64 = 48.0;
const MARGIN: f64 = 3.0;

/// A chart whose lines are paths of SVG.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chart {
    pub(super) p50: String,
    pub(super) p99: String,
}

impl Chart {
    /// The lines of a latency until `now_ms`; none without measurements in at least one minute.
    pub(super) fn of(minutes: &[v1::LatencyMinute], now_ms: i64) -> Option<Self> {
        let highest = minutes.iter().filter_map(|minute| minute.p99_ms).fold(0.0, f64::max);
        let line = |value: fn(&v1::LatencyMinute) -> Option<f64>| path(minutes, value, highest, now_ms);
        let (p50, p99) = (line(|minute| minute.p50_ms), line(|minute| minute.p99_ms));
        (!p99.is_empty()).then_some(Self { p50, p99 })
    }
}

/// The path of a line, with a gap where minutes have no value.
fn path(
    minutes: &[v1::LatencyMinute],
    value: fn(&v1::LatencyMinute) -> Option<f64>,
    highest: f64,
    now_ms: i64,
) -> String {
    let mut path = String::new();
    let mut last = None;
    for minute in minutes {
        let at = minute.start.as_ref().map_or(0, to_millis);
        let age = (now_ms - at).div_euclid(MINUTE_MS);
        let Some(value) = value(minute).filter(|_| (0..=MINUTES).contains(&age)) else { continue };
        let x = (MINUTES - age) as f64 * STEP;
        let y = MARGIN + (HEIGHT - 2.0 * MARGIN) * (1.0 - value / highest.max(f64::MIN_POSITIVE));
        // A line of no length with round ends is a dot, for a minute alone.
        let begin = if last == Some(at - MINUTE_MS) { format!("L{x:.0} {y:.1}") } else { format!("M{x:.0} {y:.1}h0") };
        path.push_str(&begin);
        last = Some(at);
    }
    path
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    #[test]
    fn lines_have_gaps_and_fit_the_drawing() {
        let now_ms = 1_795_442_700_000;
        let minute = |age: i64, p50_ms, p99_ms| v1::LatencyMinute {
            start: Some(from_millis(now_ms - age * MINUTE_MS)),
            count: 1,
            p50_ms,
            p99_ms,
        };
        let minutes = [
            minute(40, Some(1.0), Some(1.0)),
            minute(30, Some(5.0), Some(10.0)),
            minute(29, Some(0.0), Some(20.0)),
            minute(28, None, None),
            minute(1, Some(20.0), Some(20.0)),
        ];
        let chart = Chart::of(&minutes, now_ms).unwrap();
        assert_eq!(chart.p99, "M0 24.0h0L8 3.0M232 3.0h0");
        assert_eq!(chart.p50, "M0 34.5h0L8 45.0M232 3.0h0");
        assert_eq!(Chart::of(&[minute(2, None, None)], now_ms), None);
        assert_eq!(Chart::of(&[], now_ms), None);
    }
}
