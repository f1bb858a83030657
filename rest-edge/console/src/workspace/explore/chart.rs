//! The chart of a token's last 24 hours.

use thesis_proto::v1;

use crate::view::{MAX_BAR, bar_length, group_digits, time};

/// Width of an hour in units of the drawing.
const WIDTH: usize = 10;

/// An hour with its bar and its row of the table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct HourRow {
    /// The start of the hour.
    pub(super) start: String,
    pub(super) theses: String,
    pub(super) authors: String,
    /// Left edge of the bar.
    pub(super) x: usize,
    /// Top edge of the bar.
    pub(super) top: u64,
    /// Height of the bar.
    pub(super) size: u64,
}

/// The hours of a timeline, and the largest number of theses in an hour.
pub(super) fn hours(timeline: &[v1::TimelineBucket]) -> (Vec<HourRow>, i64) {
    let max = timeline.iter().map(|bucket| bucket.theses).max().unwrap_or_default();
    let count = |theses: i64| u64::try_from(theses).unwrap_or_default();
    let hour = |(at, bucket): (usize, &v1::TimelineBucket)| {
        let size = bar_length(count(bucket.theses), count(max));
        HourRow {
            start: time(bucket.bucket_start.as_ref()),
            theses: group_digits(bucket.theses),
            authors: group_digits(bucket.unique_authors),
            x: at * WIDTH,
            top: MAX_BAR - size,
            size,
        }
    };
    (timeline.iter().enumerate().map(hour).collect(), max)
}

#[cfg(test)]
mod tests {
    use thesis_proto::time::from_millis;

    use super::*;

    #[test]
    fn bars_fit_the_chart() {
        let bucket = |theses| v1::TimelineBucket {
            bucket_start: Some(from_millis(1_795_442_700_000)),
            theses,
            unique_authors: theses.min(1),
        };
        let (hours, max) = hours(&[bucket(0), bucket(i64::MAX), bucket(1), bucket(-1)]);
        let bars: Vec<_> = hours.iter().map(|hour| (hour.x, hour.top, hour.size)).collect();
        assert_eq!(bars, [(0, 200, 0), (10, 0, 200), (20, 198, 2), (30, 200, 0)]);
        assert_eq!((max, hours[2].theses.as_str(), hours[2].authors.as_str()), (i64::MAX, "1", "1"));
        assert_eq!(hours[0].start, "2026-11-23 14:05 UTC");
        assert_eq!(super::hours(&[]), (Vec::new(), 0));
    }
}
