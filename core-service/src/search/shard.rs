//! The shards of the index. The theses of `live` have a shard for each month, so a search reads the months of its
//! window, and a damaged month is rebuilt alone. The common shard has everything else: profiles, tokens, the sandbox
//! and all projects. Projects share it, since a core cannot have a writer and open files for 100,000 small projects
//! each.

use std::{fmt, ops::RangeInclusive};

use serde::{Deserialize, Serialize};

use super::schema::Kind;
use crate::domain::{dataset::Dataset, window::DAY_MS};

/// A month of the index has 30 days, counted from 1970, in milliseconds.
const MONTH_MS: i64 = 30 * DAY_MS;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Shard {
    Common,
    /// The theses of `live` that were created in a month.
    Month(i64),
}

impl Shard {
    /// The shard of a thesis. Its time of creation never changes.
    pub(super) fn of_thesis(dataset: &Dataset, created_at: i64) -> Self {
        match dataset {
            Dataset::Live => Self::Month(Self::month_of(created_at)),
            Dataset::Sandbox | Dataset::Project(_) | Dataset::Alerts(_) => Self::Common,
        }
    }

    /// The shards of a dataset's rows of a kind. For theses, those that were created in a window.
    pub(super) fn range(dataset: &Dataset, kind: Kind, from: i64, to: i64) -> RangeInclusive<Self> {
        match kind {
            Kind::Thesis => Self::of_thesis(dataset, from)..=Self::of_thesis(dataset, to),
            Kind::Profile | Kind::Token => Self::Common..=Self::Common,
        }
    }

    /// The number of the month of a time.
    pub(super) const fn month_of(millis: i64) -> i64 {
        millis.div_euclid(MONTH_MS)
    }

    /// The time at which a month ends.
    pub(super) const fn end_of_month(month: i64) -> i64 {
        (month + 1) * MONTH_MS
    }

    /// True if this is a month with a property.
    pub(super) fn is_month_that(self, has_property: impl FnOnce(i64) -> bool) -> bool {
        match self {
            Self::Common => false,
            Self::Month(month) => has_property(month),
        }
    }

    /// Reads the name of a shard.
    pub(super) fn parse(name: &str) -> Option<Self> {
        match name {
            "common" => Some(Self::Common),
            _ => name.strip_prefix("live-")?.parse().ok().map(Self::Month),
        }
    }
}

/// The name of its folder.
impl fmt::Display for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Common => formatter.write_str("common"),
            Self::Month(number) => write!(formatter, "live-{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for shard in [Shard::Common, Shard::Month(687), Shard::Month(0), Shard::Month(-3)] {
            assert_eq!(Shard::parse(&shard.to_string()), Some(shard));
        }
        for wrong in ["", "lock", "live", "live-", "live-x", "commons"] {
            assert_eq!(Shard::parse(wrong), None, "{wrong}");
        }
    }
}
