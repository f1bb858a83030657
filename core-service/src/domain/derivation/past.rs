//! Counts of a token's theses as of an earlier time. Each thesis has the times at which it was recorded and removed.

use std::{collections::HashMap, sync::Arc};

use super::{Counts, HOURS, HourCounts, LatestThesis};
use crate::domain::window::{DAY_MS, HOUR_MS, MINUTE_MS};

/// A thesis on a token, deleted or not, with the fields for counting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastThesis {
    pub created_at: i64,
    pub id: Arc<str>,
    pub author: Arc<str>,
    /// Time of the entry that created it.
    pub recorded_at: i64,
    /// Time of the entry that deleted it.
    pub removed_at: Option<i64>,
}

/// Returns whether a thesis existed at `at`: recorded by then and not yet removed.
pub fn existed_at(recorded_at: i64, removed_at: Option<i64>, at: i64) -> bool {
    recorded_at <= at && removed_at.is_none_or(|removed_at| removed_at > at)
}

/// A thesis whose author is a number of its [`PastTheses`].
#[derive(Debug)]
struct NumberedThesis {
    created_at: i64,
    id: Arc<str>,
    author: u32,
    dataset: u32,
    recorded_at: i64,
    removed_at: Option<i64>,
}

/// Theses on a token in several datasets, oldest first. Authors are numbers, so that a count needs no texts.
#[derive(Debug)]
pub struct PastTheses {
    theses: Vec<NumberedThesis>,
    authors: usize,
}

impl PastTheses {
    /// Sorts theses, each with the index of its dataset.
    pub fn new<'a>(theses: impl Iterator<Item = (usize, &'a PastThesis)>) -> Self {
        let mut numbers: HashMap<&str, u32> = HashMap::new();
        let counted = theses.map(|(dataset, thesis)| {
            let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            NumberedThesis {
                created_at: thesis.created_at,
                id: Arc::clone(&thesis.id),
                author: *numbers.entry(&thesis.author).or_insert(next),
                dataset: u32::try_from(dataset).unwrap_or(u32::MAX),
                recorded_at: thesis.recorded_at,
                removed_at: thesis.removed_at,
            }
        });
        let mut theses: Vec<NumberedThesis> = counted.collect();
        // A stable sort is quick for parts that are in order.
        theses.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Self { theses, authors: numbers.len() }
    }

    /// Approximate size in bytes.
    pub fn size(&self) -> usize {
        self.theses.iter().map(|thesis| size_of::<NumberedThesis>() + thesis.id.len()).sum()
    }

    /// The theses of the day before `at` that existed at `at`, oldest first.
    fn day(&self, at: i64) -> impl DoubleEndedIterator<Item = &NumberedThesis> {
        let start = self.theses.partition_point(|thesis| thesis.created_at <= at - DAY_MS);
        let end = self.theses.partition_point(|thesis| thesis.created_at <= at);
        let existed = move |thesis: &&NumberedThesis| existed_at(thesis.recorded_at, thesis.removed_at, at);
        self.theses[start..end].iter().filter(existed)
    }

    /// Counts the theses that existed at `at`, like [`super::count`].
    pub fn count(&self, at: i64) -> Counts {
        let hour = |hour: i64| HourCounts { start: at - (HOURS - hour) * HOUR_MS, theses: 0, authors: 0 };
        let mut counts = Counts { timeline: (0..HOURS).map(hour).collect(), ..Counts::default() };
        // For each author, one bit for each hour with a post.
        let mut hours_of = vec![0_u32; self.authors];
        for thesis in self.day(at) {
            let age = at - thesis.created_at;
            let hour = HOURS - 1 - age / HOUR_MS;
            let (hours, bit) = (&mut hours_of[thesis.author as usize], 1 << hour);
            let bucket = &mut counts.timeline[usize::try_from(hour).unwrap_or_default()];
            bucket.theses += 1;
            bucket.authors += i64::from(*hours & bit == 0);
            counts.authors_24h += i64::from(*hours == 0);
            *hours |= bit;
            counts.last_24h += 1;
            counts.last_5m += i64::from(age < 5 * MINUTE_MS);
            counts.last_1h += i64::from(age < HOUR_MS);
            counts.previous_1h += i64::from((HOUR_MS..2 * HOUR_MS).contains(&age));
        }
        let latest = self.day(at).next_back();
        counts.latest =
            latest.map(|thesis| LatestThesis { created_at: thesis.created_at, id: (*thesis.id).to_owned() });
        counts
    }

    /// The theses of the day before `at` that existed at `at` and were not deleted later, newest first: the index of
    /// the dataset, time and id.
    pub fn newest(&self, at: i64) -> impl Iterator<Item = (usize, i64, &str)> {
        let listed = self.day(at).rev().filter(|thesis| thesis.removed_at.is_none());
        listed.map(|thesis| (thesis.dataset as usize, thesis.created_at, &*thesis.id))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::derivation::{TokenTheses, count};

    proptest! {
        /// [`count`] gives the same counts for the theses that existed, and the newest ones are theirs.
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
                    id: format!("th_{number}").into(),
                    author: format!("fp_{author}").into(),
                    recorded_at: recorded_at * STEP,
                    removed_at: removed_at.map(|removed_at| removed_at * STEP),
                }
            });
            let theses: Vec<PastThesis> = theses.collect();
            let there = theses.iter().filter(|thesis| {
                thesis.recorded_at <= at && thesis.removed_at.is_none_or(|removed_at| at < removed_at)
            });
            let mut listed: Vec<(usize, i64, &str)> = there
                .clone()
                .filter(|thesis| thesis.removed_at.is_none())
                .filter(|thesis| thesis.created_at <= at && thesis.created_at > at - DAY_MS)
                .map(|thesis| (1, thesis.created_at, &*thesis.id))
                .collect();
            listed.sort_unstable();
            listed.reverse();
            let fields = |thesis: &PastThesis| (thesis.created_at, thesis.id.to_string(), thesis.author.to_string());
            let there: TokenTheses = there.map(fields).collect();
            let past = PastTheses::new(theses.iter().map(|thesis| (1, thesis)));
            prop_assert_eq!(past.count(at), count(&[&there], at));
            prop_assert_eq!(past.newest(at).collect::<Vec<_>>(), listed);
        }
    }
}
