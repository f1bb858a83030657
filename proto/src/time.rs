//! Times: protobuf timestamps, unix milliseconds and the one text form of the API.

use jiff::{
    SignedDuration,
    civil::{DateTime, Time, date},
    fmt::temporal::Pieces,
    tz::Offset,
};
use prost_types::Timestamp;

const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
/// The last millisecond of year 9999.
const MAX_MILLIS: i64 = 253_402_300_799_999;

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

/// `YYYY-MM-DDTHH:MM:SS.mmmZ`; what lies outside of years 1970 to 9999 is moved to their border.
#[must_use]
pub fn format_millis(millis: i64) -> String {
    text_of(&write_millis(millis)).to_owned()
}

/// The text form on the stack, for encoders.
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
/// None for anything else and outside of years 1970 to 9999. Nanoseconds are kept.
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
    let inside = !since.is_negative() && since.as_secs() <= MAX_MILLIS / 1000;
    inside.then(|| Timestamp { seconds: since.as_secs(), nanos: since.subsec_nanos() })
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
            "1969-12-31T23:59:59.999Z",
            "1970-01-01T00:00:00+01:00",
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
        fn never_panics(text in ".{0,40}", millis: i64) {
            let _ = parse_iso8601(&text);
            let _ = format_millis(millis);
            prop_assert_eq!(to_millis(&from_millis(millis)), millis);
        }
    }
}
