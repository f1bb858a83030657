//! Days and kinds of the archive's files.

use std::fmt;

use thesis_proto::time::{format_millis, parse_iso8601, to_millis};

use super::window::DAY_MS;

/// Length of a date as text, such as `2026-01-31`.
const DATE_CHARS: usize = 10;

/// A day in UTC, as its number since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(i64);

impl Day {
    /// The day of a time in unix milliseconds.
    #[must_use]
    pub const fn of(at: i64) -> Self {
        Self(at.div_euclid(DAY_MS))
    }

    /// Parses `2026-01-31`. There are no days before 1970.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if text.len() != DATE_CHARS {
            return None;
        }
        let day = Self::of(to_millis(&parse_iso8601(&format!("{text}T00:00:00Z"))?));
        (day.to_string() == text).then_some(day)
    }

    /// Its first millisecond.
    #[must_use]
    pub const fn start_ms(self) -> i64 {
        self.0 * DAY_MS
    }

    /// The day before it.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0 - 1)
    }

    /// The day after it.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Day {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format_millis(self.start_ms());
        formatter.write_str(text.get(..DATE_CHARS).unwrap_or(&text))
    }
}

/// A kind of file. A day of a dataset has one file of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    /// The theses that were created that day.
    Theses,
    /// The events of that day, as they were sent.
    Events,
    /// Theses and authors of each token and hour.
    TokenHours,
    /// Edits, deletions and late arrivals of theses of earlier days.
    Changes,
}

impl FileKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Theses, Self::Events, Self::TokenHours, Self::Changes];

    /// Its name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Theses => "theses",
            Self::Events => "events",
            Self::TokenHours => "token_hours",
            Self::Changes => "changes",
        }
    }

    /// Parses a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_is_written_as_it_is_read() {
        for text in ["1970-01-01", "2026-02-28", "2024-02-29", "9999-12-31"] {
            assert_eq!(Day::parse(text).unwrap().to_string(), text);
        }
        for wrong in
            ["", "2026-2-28", "2026-02-29", "2026-13-01", "20260228", "2026-02-28Z", "2026-02-2٨", "1969-12-31"]
        {
            assert_eq!(Day::parse(wrong), None, "{wrong}");
        }
        let day = Day::parse("2026-02-28").unwrap();
        assert_eq!(day.next().to_string(), "2026-03-01");
        assert_eq!(day.next().previous(), day);
        assert_eq!((Day::of(day.start_ms()), Day::of(day.next().start_ms() - 1)), (day, day));
        assert_eq!(Day::of(-1).next(), Day::of(0));
    }

    #[test]
    fn kinds_are_read_back() {
        for kind in FileKind::ALL {
            assert_eq!(FileKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(FileKind::parse("Theses"), None);
    }
}
