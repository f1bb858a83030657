//! Counts of a token's theses as of an earlier time. Each thesis has the times at which it was recorded and removed.

use std::collections::HashMap;

use super::{Counts, HOURS, HourCounts, LatestThesis, number};
use crate::domain::window::{DAY_MS, HOUR_MS, MINUTE_MS};

/// A thesis on a token, deleted or not, with the fields for counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastThesis {
    pub created_at: i64,
    pub id: String,
    pub author: String,
    /// Time of the entry that created it.
    pub recorded_at: i64,
    /// Time of the entry that deleted it.
    pub removed_at: Option<i64>,
}

/// Returns whether a thesis existed at `at`: recorded by then and not yet removed.
pub fn existed_at(recorded_at: i64, removed_at: Option<i64>, at: i64) -> bool {
    recorded_at <= at && removed_at.is_none_or(|removed_at| removed_at > at)
}

/// Counts the theses of a token that existed at `at`, like [`super::count`]. The theses may be in any order.
pub fn count_past<'a>(theses: impl Iterator<Item = &'a PastThesis>, at: i64) -> Counts {
    let hour = |hour: i64| HourCounts { start: at - (HOURS - hour) * HOUR_MS, theses: 0, authors: 0 };
    let mut counts = Counts { timeline: (0..HOURS).map(hour).collect(), ..Counts::default() };
    // For each author, one bit for each hour with a post.
    let mut hours_of: HashMap<&str, u32> = HashMap::new();
    let mut latest: Option<(i64, &str)> = None;
    for thesis in theses {
        let age = at - thesis.created_at;
        if !(0..DAY_MS).contains(&age) || !existed_at(thesis.recorded_at, thesis.removed_at, at) {
            continue;
        }
        let hour = HOURS - 1 - age / HOUR_MS;
        let (hours, bit) = (hours_of.entry(thesis.author.as_str()).or_default(), 1 << hour);
        let bucket = &mut counts.timeline[usize::try_from(hour).unwrap_or_default()];
        bucket.theses += 1;
        bucket.authors += i64::from(*hours & bit == 0);
        *hours |= bit;
        counts.last_24h += 1;
        counts.last_5m += i64::from(age < 5 * MINUTE_MS);
        counts.last_1h += i64::from(age < HOUR_MS);
        counts.previous_1h += i64::from((HOUR_MS..2 * HOUR_MS).contains(&age));
        latest = latest.max(Some((thesis.created_at, thesis.id.as_str())));
    }
    counts.authors_24h = number(hours_of.len());
    counts.latest = latest.map(|(created_at, id)| LatestThesis { created_at, id: id.to_owned() });
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::derivation::{TokenTheses, count};

    proptest! {
        /// [`count`] gives the same counts for the theses that existed.
        #[test]
        fn past_counts_are_those_of_the_theses_that_existed(
            rows in prop::collection::vec((0..200_i64, 0..6_u8, 0..200_i64, prop::option::of(0..200_i64)), 0..80),
            at in 0..200_i64,
        ) {
            const STEP: i64 = 20 * MINUTE_MS;
            let at = at * STEP;
            let theses = rows.into_iter().enumerate().map(|(number, (created_at, author, recorded_at, removed_at))| {
                PastThesis {
                    created_at: created_at * STEP,
                    id: format!("th_{number}"),
                    author: format!("fp_{author}"),
                    recorded_at: recorded_at * STEP,
                    removed_at: removed_at.map(|removed_at| removed_at * STEP),
                }
            });
            let theses: Vec<PastThesis> = theses.collect();
            let there = theses.iter().filter(|thesis| {
                thesis.recorded_at <= at && thesis.removed_at.is_none_or(|removed_at| at < removed_at)
            });
            let fields = |thesis: &PastThesis| (thesis.created_at, thesis.id.clone(), thesis.author.clone());
            let there: TokenTheses = there.map(fields).collect();
            prop_assert_eq!(count_past(theses.iter(), at), count(&[&there], at));
        }
    }
}
