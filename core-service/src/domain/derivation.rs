//! Counts over the windows of a token, as derived events and metrics give them. Windows are half-open, `(from, to]`.

use std::collections::HashSet;

use super::window::{DAY_MS, HOUR_MS, MINUTE_MS};

/// A token's derived events are made at most once in so long.
pub const DERIVE_EVERY_MS: i64 = 5_000;

/// A thesis as counting needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// When it was posted.
    pub created_at: i64,
    /// Its id.
    pub id: String,
    /// Its author.
    pub profile_id: String,
}

/// Counts of one token at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// In the last 5 minutes.
    pub last_5m: i64,
    /// In the last hour.
    pub last_1h: i64,
    /// In the hour before.
    pub previous_1h: i64,
    /// In the last 24 hours.
    pub last_24h: i64,
    /// Their authors.
    pub authors_24h: i64,
    /// The newest, with its time.
    pub latest: Option<(i64, String)>,
}

/// Counts theses at `at`; what lies outside `(at - 24 h, at]` does not count.
pub fn count<'a>(theses: impl IntoIterator<Item = &'a Counted>, at: i64) -> Counts {
    let mut counts = Counts::default();
    let mut authors = HashSet::new();
    for thesis in theses {
        let age = at - thesis.created_at;
        if !(0..DAY_MS).contains(&age) {
            continue;
        }
        counts.last_24h += 1;
        authors.insert(thesis.profile_id.as_str());
        counts.last_5m += i64::from(age < 5 * MINUTE_MS);
        counts.last_1h += i64::from(age < HOUR_MS);
        counts.previous_1h += i64::from((HOUR_MS..2 * HOUR_MS).contains(&age));
        let newest = (thesis.created_at, &thesis.id);
        if counts.latest.as_ref().is_none_or(|(time, id)| newest > (*time, id)) {
            counts.latest = Some((thesis.created_at, thesis.id.clone()));
        }
    }
    counts.authors_24h = i64::try_from(authors.len()).unwrap_or(i64::MAX);
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thesis(created_at: i64, profile: &str) -> Counted {
        Counted { created_at, id: format!("th_{created_at}"), profile_id: profile.to_owned() }
    }

    #[test]
    fn windows_are_open_below_and_closed_above() {
        let at = 10 * DAY_MS;
        let edges = [0, 5 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, DAY_MS, -1];
        let theses: Vec<_> = edges.iter().map(|age| thesis(at - age, "a")).collect();
        let counts = count(&theses, at);
        assert_eq!((counts.last_5m, counts.last_1h, counts.previous_1h, counts.last_24h), (1, 2, 1, 4));
        assert_eq!(counts.authors_24h, 1);
        assert_eq!(counts.latest, Some((at, format!("th_{at}"))));
    }
}
