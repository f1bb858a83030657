//! The theses of one token within the last day, counted while time goes on. A step costs what it moves.

use std::collections::{BTreeMap, HashMap, btree_map::Entry};

use super::METRICS;
use crate::domain::{
    derivation::change_pct,
    window::{DAY_MS, HOUR_MS, MINUTE_MS},
};

/// The counted windows, in milliseconds. The third one less the second one is the hour before the last.
const WIDTHS: [i64; 4] = [5 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, DAY_MS];
const DAY: usize = 3;

/// The values of all metrics, by their index.
pub(super) type Values = [Option<f64>; METRICS];

/// The theses of one token, counted at a time. Windows are half-open, `(from, to]`.
#[derive(Debug)]
pub(super) struct TokenWindow {
    at: i64,
    /// Authors by time and id. Those of later times are not counted yet.
    theses: BTreeMap<(i64, String), String>,
    counts: [i64; 4],
    /// The number of counted theses of each author.
    authors: HashMap<String, u32>,
}

/// The first key after a time.
const fn after(time: i64) -> (i64, String) {
    (time.saturating_add(1), String::new())
}

#[expect(clippy::cast_precision_loss, reason = "counts of theses in a day are far below 2^52")]
const fn number(count: i64) -> f64 {
    count as f64
}

impl TokenWindow {
    pub(super) fn new(at: i64) -> Self {
        Self { at, theses: BTreeMap::new(), counts: [0; 4], authors: HashMap::new() }
    }

    pub(super) fn insert(&mut self, created_at: i64, id: String, author: String) {
        if created_at <= self.at - DAY_MS {
            return;
        }
        let Entry::Vacant(place) = self.theses.entry((created_at, id)) else { return };
        place.insert(author.clone());
        if created_at <= self.at {
            self.count(created_at, 1);
            add_author(&mut self.authors, &author);
        }
    }

    pub(super) fn remove(&mut self, created_at: i64, id: &str) {
        let Some(author) = self.theses.remove(&(created_at, id.to_owned())) else { return };
        if created_at <= self.at {
            self.count(created_at, -1);
            remove_author(&mut self.authors, &author);
        }
    }

    fn count(&mut self, created_at: i64, by: i64) {
        for (count, width) in self.counts.iter_mut().zip(WIDTHS) {
            if created_at > self.at - width {
                *count += by;
            }
        }
    }

    /// The theses in `(from, to]`.
    fn between(&self, from: i64, to: i64) -> impl Iterator<Item = &String> {
        let range = (from < to).then(|| self.theses.range(after(from)..after(to)));
        range.into_iter().flatten().map(|(_, author)| author)
    }

    /// Moves to a later time.
    pub(super) fn advance(&mut self, to: i64) {
        let from = self.at;
        if to <= from {
            return;
        }
        let mut counts = self.counts;
        for (count, width) in counts.iter_mut().zip(WIDTHS) {
            let entered = self.between(from.max(to - width), to).count();
            let left = self.between(from - width, from.min(to - width)).count();
            *count += i64::try_from(entered).unwrap_or(i64::MAX) - i64::try_from(left).unwrap_or(i64::MAX);
        }
        let mut authors = std::mem::take(&mut self.authors);
        self.between(from.max(to - DAY_MS), to).for_each(|author| add_author(&mut authors, author));
        self.between(from - DAY_MS, from.min(to - DAY_MS)).for_each(|author| remove_author(&mut authors, author));
        (self.at, self.counts, self.authors) = (to, counts, authors);
        while self.theses.first_key_value().is_some_and(|((created_at, _), _)| *created_at <= to - DAY_MS) {
            self.theses.pop_first();
        }
    }

    /// The next time at which time alone changes a count.
    pub(super) fn next_change(&self) -> Option<i64> {
        let first_after = |time| self.theses.range(after(time)..).next().map(|((created_at, _), _)| *created_at);
        let leaves = WIDTHS.into_iter().filter_map(|width| {
            let first = first_after(self.at - width).filter(|created_at| *created_at <= self.at);
            first.map(|created_at| created_at + width)
        });
        leaves.chain(first_after(self.at)).min()
    }

    pub(super) fn values(&self) -> Values {
        let [last_5m, last_1h, last_2h, _] = self.counts;
        let authors = u32::try_from(self.authors.len()).unwrap_or(u32::MAX);
        [
            Some(number(last_5m)),
            Some(number(last_1h)),
            Some(number(self.counts[DAY])),
            Some(f64::from(authors)),
            change_pct(last_1h, last_2h - last_1h),
        ]
    }
}

fn add_author(authors: &mut HashMap<String, u32>, author: &str) {
    match authors.get_mut(author) {
        Some(count) => *count += 1,
        None => drop(authors.insert(author.to_owned(), 1)),
    }
}

fn remove_author(authors: &mut HashMap<String, u32>, author: &str) {
    let Some(count) = authors.get_mut(author) else { return };
    *count -= 1;
    if *count == 0 {
        authors.remove(author);
    }
}
