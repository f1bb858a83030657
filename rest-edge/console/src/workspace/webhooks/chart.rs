//! The charts of a webhook's page: the attempts of each hour of the last day, and the time to a response.

use prost_types::Timestamp;
use thesis_proto::v1;

use crate::view::{MAX_BAR, bar_length, group_digits, time};

/// Width of an hour in units of the drawing.
const WIDTH: usize = 10;

/// The attempts of an hour.
#[derive(Debug, PartialEq)]
pub(super) struct HourBar {
    /// The start of the hour.
    pub(super) since: Option<Timestamp>,
    /// The start of the hour as a text.
    pub(super) label: String,
    pub(super) attempts: String,
    pub(super) failures: String,
    /// Median and 99th percentile of the time to a response.
    pub(super) latency: String,
    /// Left edge of the bar.
    pub(super) x: usize,
    /// Top edge and height of the bar, and of its part for failures.
    pub(super) top: u64,
    pub(super) size: u64,
    pub(super) failure_top: u64,
    pub(super) failure_size: u64,
}

/// The charts. `bars` is empty if there were no attempts.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Charts {
    pub(super) bars: Vec<HourBar>,
    pub(super) max_attempts: String,
    /// The paths of the lines.
    pub(super) median: String,
    pub(super) slowest: String,
    /// The time at the top of the drawing, in milliseconds; none without a response.
    pub(super) max_latency: Option<String>,
}

pub(super) fn draw(hours: &[v1::WebhookAttempts]) -> Charts {
    let number = |count: i64| u64::try_from(count).unwrap_or_default();
    let max = hours.iter().map(|hour| number(hour.attempts)).max().unwrap_or_default();
    if max == 0 {
        return Charts::default();
    }
    let bar = |(at, hour): (usize, &v1::WebhookAttempts)| {
        let (attempts, failures) = (number(hour.attempts), number(hour.attempts - hour.successes));
        let (size, failure_size) = (bar_length(attempts, max), bar_length(failures, max));
        let latency = match (hour.latency_p50_ms, hour.latency_p99_ms) {
            (Some(median), Some(slowest)) => format!("{median} ms, {slowest} ms"),
            _ => "no response".to_owned(),
        };
        HourBar {
            since: hour.since,
            label: time(hour.since.as_ref()),
            attempts: group_digits(attempts),
            failures: group_digits(failures),
            latency,
            x: at * WIDTH,
            top: MAX_BAR - size,
            size,
            failure_top: MAX_BAR - failure_size,
            failure_size,
        }
    };
    let max_latency = hours.iter().filter_map(|hour| hour.latency_p99_ms).max();
    let line =
        |latency: fn(&v1::WebhookAttempts) -> Option<i32>| path(hours.iter().map(latency), max_latency.unwrap_or(1));
    Charts {
        bars: hours.iter().enumerate().map(bar).collect(),
        max_attempts: group_digits(max),
        median: line(|hour| hour.latency_p50_ms),
        slowest: line(|hour| hour.latency_p99_ms),
        max_latency: max_latency.map(group_digits),
    }
}

/// The path of a line through the middles of the hours. An hour without a value interrupts the line; a value without
/// neighbours is a dash.
fn path(values: impl Iterator<Item = Option<i32>>, max: i32) -> String {
    let (mut path, mut is_open) = (String::new(), false);
    for (at, value) in values.enumerate() {
        let Some(value) = value else {
            is_open = false;
            continue;
        };
        let (x, y) = (at * WIDTH + WIDTH / 2, 200.0 - f64::from(value) * 200.0 / f64::from(max.max(1)));
        if is_open {
            path.push_str(&format!("L{x} {y:.1}"));
        } else {
            path.push_str(&format!("M{x} {y:.1}h2"));
        }
        is_open = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    fn hour(attempts: i64, successes: i64, latency: Option<i32>) -> v1::WebhookAttempts {
        v1::WebhookAttempts {
            since: Some(from_millis(1_795_442_400_000)),
            attempts,
            successes,
            latency_p50_ms: latency,
            latency_p99_ms: latency.map(|latency| 2 * latency),
            ..v1::WebhookAttempts::default()
        }
    }

    #[test]
    fn bars_and_lines_share_their_hours() {
        let charts = draw(&[hour(10, 5, Some(100)), hour(0, 0, None), hour(20, 20, Some(50)), hour(20, 20, Some(100))]);
        let bars: Vec<_> = charts.bars.iter().map(|bar| (bar.x, bar.top, bar.size, bar.failure_size)).collect();
        assert_eq!(bars, [(0, 100, 100, 50), (10, 200, 0, 0), (20, 0, 200, 0), (30, 0, 200, 0)]);
        assert_eq!(
            (&*charts.median, &*charts.slowest),
            ("M5 100.0h2M25 150.0h2L35 100.0", "M5 0.0h2M25 100.0h2L35 0.0")
        );
        assert_eq!((&*charts.max_attempts, charts.max_latency.as_deref()), ("20", Some("200")));
        assert_eq!((&*charts.bars[0].failures, &*charts.bars[1].latency), ("5", "no response"));
    }

    #[test]
    fn nothing_is_drawn_without_attempts() {
        assert_eq!(draw(&[hour(0, 0, None)]), Charts::default());
        let failed = draw(&[hour(1, 0, None)]);
        assert_eq!((failed.bars.len(), &*failed.median, failed.max_latency), (1, "", None));
    }
}
