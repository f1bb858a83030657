//! Times: protobuf timestamps, unix milliseconds and the one text form of the API.

use jiff::{
    SignedDuration,
    civil::{DateTime, Time, date},
    fmt::temporal::Pieces,
    tz::Offset,
};
use prost_types::Timestamp;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
/// The first second of year 1.
const MIN_SECONDS: i64 = -62_135_596_800;
/// The last second of year 9999.
const MAX_SECONDS: i64 = 253_402_300_799;
/// The last millisecond of year 9999.
const MAX_MILLIS: i64 = MAX_SECONDS * 1000 + 999;
/// Nanoseconds of a second.
const SECOND_NANOS: i32 = 1_000_000_000;

/// True if a timestamp is a time of the years 1 to 9999, in its normal form.
#[must_use]
pub fn is_time(timestamp: &Timestamp) -> bool {
    (MIN_SECONDS..=MAX_SECONDS).contains(&timestamp.seconds) && (0..SECOND_NANOS).contains(&timestamp.nanos)
}

/// Unix milliseconds of a timestamp, finer parts cut off.
#[must_use]
pub fn to_millis(timestamp: &Timestamp) -> i64 {
    timestamp.seconds.saturating_mul(1000).saturating_add(i64::from(timestamp.nanos) / 1_000_000)
}

/// The timestamp of unix milliseconds.
#[must_use]
pub fn from_millis(millis: i64) -> Timestamp {
    Timestamp {
        seconds: millis.div_euclid(1000),
        nanos: i32::try_from(millis.rem_euclid(1000)).expect("below 1000") * 1_000_000,
    }
}

/// `YYYY-MM-DDTHH:MM:SS.mmmZ`; a time outside of years 1970 to 9999 becomes their nearest.
#[must_use]
pub fn format_millis(millis: i64) -> String {
    text_of(&write_millis(millis)).to_owned()
}

/// The text form as bytes on the stack, for encoders.
pub(crate) fn write_millis(millis: i64) -> [u8; 24] {
    let at = EPOCH.saturating_add(SignedDuration::from_millis(millis.clamp(0, MAX_MILLIS)));
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let mut put = |from: usize, width: usize, value: i16| {
        let mut rest = value.unsigned_abs();
        for digit in text[from..from + width].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).expect("one digit");
            rest /= 10;
        }
    };
    put(0, 4, at.year());
    put(5, 2, at.month().into());
    put(8, 2, at.day().into());
    put(11, 2, at.hour().into());
    put(14, 2, at.minute().into());
    put(17, 2, at.second().into());
    put(20, 3, at.millisecond());
    text
}

pub(crate) fn text_of(text: &[u8; 24]) -> &str {
    str::from_utf8(text).expect("ASCII digits and signs")
}

/// Reads an ISO 8601 date-time: any offset (none is UTC), seconds and fraction optional, a bare date is its midnight.
/// Other texts and times outside of years 1 to 9999 give none. Nanoseconds are kept.
#[must_use]
pub fn parse_iso8601(text: &str) -> Option<Timestamp> {
    let pieces = Pieces::parse(text).ok()?;
    // `[Europe/Berlin]` and the like are not ISO 8601.
    if pieces.time_zone_annotation().is_some() {
        return None;
    }
    let local = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
    // Not through `jiff::Timestamp`, whose range ends a day before 9999-12-31, which clients send as "no bound".
    let since = local.duration_since(EPOCH) - SignedDuration::from_secs(offset.seconds().into());
    // Before 1970 the nanoseconds still count forward from the second.
    let borrowed = i32::from(since.subsec_nanos() < 0);
    let seconds = since.as_secs() - i64::from(borrowed);
    Some(Timestamp { seconds, nanos: since.subsec_nanos() + borrowed * SECOND_NANOS }).filter(is_time)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn millis(text: &str) -> Option<i64> {
        parse_iso8601(text).as_ref().map(to_millis)
    }

    #[test]
    fn formats() {
        assert_eq!(format_millis(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(format_millis(1_709_210_096_007), "2024-02-29T12:34:56.007Z");
        assert_eq!(format_millis(MAX_MILLIS), "9999-12-31T23:59:59.999Z");
        assert_eq!(format_millis(-1), "1970-01-01T00:00:00.000Z");
        assert_eq!(format_millis(i64::MAX), "9999-12-31T23:59:59.999Z");
        assert_eq!(format_millis(i64::MIN), "1970-01-01T00:00:00.000Z");
    }

    #[test]
    fn reads_what_clients_send() {
        let noon = 1_709_208_000_000;
        for text in [
            "2024-02-29T12:00:00.000Z",
            "2024-02-29T12:00:00Z",
            "2024-02-29T12:00Z",
            "2024-02-29T12:00",
            "2024-02-29T12:00:00",
            "2024-02-29 12:00:00Z",
            "2024-02-29t12:00:00z",
            "2024-02-29T12:00:00+00:00",
            "2024-02-29T12:00:00-00:00",
            "2024-02-29T14:00:00+02:00",
            "2024-02-29T14:00:00+0200",
            "2024-02-29T14:00:00+02",
            "2024-02-29T06:30:00-05:30",
            "20240229T120000Z",
            "2024-02-29T12:00:00,000Z",
        ] {
            assert_eq!(millis(text), Some(noon), "{text}");
        }
        assert_eq!(millis("2024-02-29"), Some(noon - 12 * 3_600_000));
        assert_eq!(millis("1970-01-01"), Some(0));
        assert_eq!(millis("1969-12-31T23:59:59.999Z"), Some(-1));
        assert_eq!(millis("1970-01-01T00:00:00+01:00"), Some(-3_600_000));
        assert_eq!(millis("0001-01-01"), Some(MIN_SECONDS * 1000));
        let early = parse_iso8601("1969-12-31T23:59:58.25Z").unwrap();
        assert_eq!((early.seconds, early.nanos), (-2, 250_000_000));
        assert_eq!(millis("9999-12-31T23:59:59.999Z"), Some(MAX_MILLIS));
        let fine = parse_iso8601("2024-02-29T12:00:00.123456789Z").unwrap();
        assert_eq!(fine.nanos, 123_456_789);
        assert_eq!(to_millis(&fine), noon + 123);
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "",
            "now",
            "2024",
            "2024-02",
            "2023-02-29",
            "2024-02-29T25:00:00Z",
            "2024-02-29T12:60:00Z",
            "2024-02-29T12:00:00Zz",
            " 2024-02-29",
            "12:00:00",
            "1709208000",
            "2024-02-29T12:00:00+99:00",
            "2024-02-29T12:00:00Z[Europe/Berlin]",
            "2024-02-29T12:00:00+00:00[UTC]",
            "0000-12-31T23:59:59.999Z",
            "0001-01-01T00:00:00+01:00",
            "-001000-01-01",
            "9999-12-31T23:59:59-01:00",
            "10000-01-01",
            "2024-02-29T12:00:00\u{0}Z",
        ] {
            assert_eq!(parse_iso8601(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trips(millis in 0..=MAX_MILLIS) {
            let text = format_millis(millis);
            prop_assert_eq!(parse_iso8601(&text), Some(from_millis(millis)));
            prop_assert_eq!(to_millis(&from_millis(millis)), millis);
        }

        #[test]
        fn times_of_all_years_are_read(millis in MIN_SECONDS * 1000..=MAX_MILLIS) {
            let at = EPOCH.saturating_add(SignedDuration::from_millis(millis));
            prop_assert_eq!(parse_iso8601(&format!("{at}Z")), Some(from_millis(millis)));
            prop_assert!(is_time(&from_millis(millis)));
        }

        #[test]
        fn never_panics(text in ".{0,40}", millis: i64) {
            prop_assert!(parse_iso8601(&text).as_ref().is_none_or(is_time));
            let _ = format_millis(millis);
            prop_assert_eq!(to_millis(&from_millis(millis)), millis);
        }
    }
}
