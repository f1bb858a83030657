//! Charts of theses by hour and by day.

use prost_types::Timestamp;
use thesis_proto::{
    time::{format_millis, to_millis},
    v1,
};

use crate::view::{MAX_BAR, bar_length, group_digits, time};

/// Width of a bar with its gap, in units of the drawing.
const WIDTH: usize = 10;
const DAY_MS: i64 = 86_400_000;

/// One bar of a chart.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Bar {
    /// The hour or day of the bar, with its counts.
    pub(super) title: String,
    /// Left edge.
    pub(super) x: usize,
    /// Top edge.
    pub(super) top: u64,
    /// Height.
    pub(super) size: u64,
}

pub(super) struct Chart {
    pub(super) bars: Vec<Bar>,
    pub(super) width: usize,
    /// A description of the chart for screen readers.
    pub(super) title: String,
    pub(super) caption: String,
}

impl Chart {
    /// A chart of counts with their titles; none without a count above zero.
    fn of(counts: Vec<(String, i64)>, title: &str, caption: String) -> Option<Self> {
        let max = counts.iter().map(|(_, count)| *count).max().filter(|max| *max > 0)?;
        let number = |count: i64| u64::try_from(count).unwrap_or_default();
        let width = counts.len() * WIDTH;
        let bar = |(at, (title, count)): (usize, (String, i64))| {
            let size = bar_length(number(count), number(max));
            Bar { title, x: at * WIDTH, top: MAX_BAR - size, size }
        };
        let bars = counts.into_iter().enumerate().map(bar).collect();
        Some(Self { bars, width, title: format!("{title}; at most {}", group_digits(max)), caption })
    }

    /// The theses by hour of a timeline.
    pub(super) fn of_hours(timeline: &[v1::TimelineBucket], caption: String) -> Option<Self> {
        let count = |bucket: &v1::TimelineBucket| {
            let start = time(bucket.bucket_start.as_ref());
            let (theses, authors) = (group_digits(bucket.theses), group_digits(bucket.unique_authors));
            (format!("From {start}: {theses} theses, {authors} authors"), bucket.theses)
        };
        Self::of(timeline.iter().map(count).collect(), "Theses by hour, the newest hour last", caption)
    }

    /// The theses of the last days by UTC day, today included.
    pub(super) fn of_days(theses: &[v1::Thesis], now_ms: i64, days: i64, caption: String) -> Option<Self> {
        let today = now_ms.div_euclid(DAY_MS);
        let count = |day: i64| {
            let posted = theses.iter().filter_map(|thesis| thesis.created_at.as_ref());
            let number = posted.filter(|at| to_millis(at).div_euclid(DAY_MS) == day).count();
            let date: String = format_millis(day * DAY_MS).chars().take("YYYY-MM-DD".len()).collect();
            (format!("{date}: {number} theses"), i64::try_from(number).unwrap_or(i64::MAX))
        };
        let counts = (today - days + 1..=today).map(count).collect();
        Self::of(counts, "Theses by day, the newest day last", caption)
    }
}

/// An hour as a row of the table.
pub(super) struct HourRow {
    /// The start of the hour.
    pub(super) start: Option<Timestamp>,
    pub(super) theses: String,
    pub(super) authors: String,
}

pub(super) fn hours(timeline: &[v1::TimelineBucket]) -> Vec<HourRow> {
    let hour = |bucket: &v1::TimelineBucket| HourRow {
        start: bucket.bucket_start,
        theses: group_digits(bucket.theses),
        authors: group_digits(bucket.unique_authors),
    };
    timeline.iter().map(hour).collect()
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    const AT: i64 = 1_795_442_700_000;

    #[test]
    fn bars_fit_the_chart() {
        let bucket = |theses: i64| v1::TimelineBucket {
            bucket_start: Some(from_millis(AT)),
            theses,
            unique_authors: theses.min(1),
        };
        let chart = Chart::of_hours(&[bucket(0), bucket(i64::MAX), bucket(1), bucket(-1)], String::new()).unwrap();
        let bars: Vec<_> = chart.bars.iter().map(|bar| (bar.x, bar.top, bar.size)).collect();
        assert_eq!(bars, [(0, 200, 0), (10, 0, 200), (20, 198, 2), (30, 200, 0)]);
        assert_eq!(chart.bars[2].title, "From 2026-11-23 14:05 UTC: 1 theses, 1 authors");
        assert_eq!(chart.width, 40);
        // An empty box would look broken.
        assert!(
            Chart::of_hours(&[bucket(0)], String::new()).is_none() && Chart::of_hours(&[], String::new()).is_none()
        );
    }

    #[test]
    fn theses_are_counted_by_day() {
        let posted =
            |days: i64| v1::Thesis { created_at: Some(from_millis(AT - days * DAY_MS)), ..v1::Thesis::default() };
        let chart = Chart::of_days(&[posted(0), posted(0), posted(1), posted(9)], AT, 3, String::new()).unwrap();
        let titles: Vec<_> = chart.bars.iter().map(|bar| bar.title.as_str()).collect();
        assert_eq!(titles, ["2026-11-21: 0 theses", "2026-11-22: 1 theses", "2026-11-23: 2 theses"]);
        assert!(Chart::of_days(&[posted(9)], AT, 3, String::new()).is_none());
    }
}
