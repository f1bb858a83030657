//! Times: unix milliseconds inside, ISO 8601 outside.

use serde::Serializer;
use thesis_proto::time::{format_millis, parse_iso8601, to_millis};

/// Unix milliseconds of a text.
pub(crate) fn parse(text: &str) -> Option<i64> {
    parse_iso8601(text).as_ref().map(to_millis)
}

/// The text of unix milliseconds.
pub(crate) fn text(at: i64) -> String {
    format_millis(at)
}

/// A time after an object's last one, now if possible.
pub(crate) fn after(last: i64, now: i64) -> i64 {
    now.max(last + 1)
}

/// Serialises a time.
pub(crate) fn required<S: Serializer>(at: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_millis(*at))
}

/// Serialises a time or null.
pub(crate) fn optional<S: Serializer>(at: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.serialize_str(&format_millis(*at)),
        None => serializer.serialize_none(),
    }
}
