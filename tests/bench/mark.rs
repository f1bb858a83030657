//! The microsecond of a post, as a mark in its text, so that another process can tell how long it took to arrive.

use crate::connection::find;

/// Comes before the microsecond.
pub(crate) const MARK: &[u8] = b"posted-at-";
pub(crate) const DIGITS: usize = 16;

/// Microseconds that all processes of the machine count alike.
pub(crate) fn micros() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec * 1_000_000 + now.tv_nsec / 1_000).unwrap_or_default()
}

/// The text of an event that is posted now.
pub(crate) fn text() -> String {
    format!("posted-at-{:016}: holding through the week, as before", micros())
}

/// The microsecond that the first mark tells.
pub(crate) fn posted_at(bytes: &[u8]) -> Option<u64> {
    let start = find(bytes, MARK)? + MARK.len();
    std::str::from_utf8(bytes.get(start..start + DIGITS)?).ok()?.parse().ok()
}
