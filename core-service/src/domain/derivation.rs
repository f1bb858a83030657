//! Counts over the windows of a token, for derived events and metrics. Windows are half-open, `(from, to]`. They are
//! messages, since cores request them from each other.

mod past;

use std::collections::HashMap;

pub use self::past::{PastTheses, PastThesis, existed_at};
use super::window::{DAY_MS, HOUR_MS, MINUTE_MS};

/// Interval between two derived events of a token, in milliseconds.
pub const DERIVE_EVERY_MS: i64 = 5_000;
/// Buckets of a timeline.
const HOURS: i64 = 24;

/// The change from the hour before the last to the last hour, in per cent; none if the hour before had no theses.
#[must_use]
pub fn change_pct(last_1h: i64, previous_1h: i64) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "counts of theses in an hour are far below 2^52")]
    (previous_1h != 0).then(|| (last_1h - previous_1h) as f64 * 100.0 / previous_1h as f64)
}

/// A thesis with the fields for counting; its author is a number of its [`TokenTheses`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CountedThesis {
    created_at: i64,
    id: String,
    author: u32,
}

/// Theses of one token in one dataset, oldest first.
#[derive(Clone, Debug, Default)]
pub struct TokenTheses {
    theses: Vec<CountedThesis>,
    authors: HashMap<String, u32>,
}

impl TokenTheses {
    fn find(&self, created_at: i64, id: &str) -> Result<usize, usize> {
        self.theses.binary_search_by(|thesis| (thesis.created_at, thesis.id.as_str()).cmp(&(created_at, id)))
    }

    pub fn insert(&mut self, created_at: i64, id: String, author: String) {
        if let Err(index) = self.find(created_at, &id) {
            let next = u32::try_from(self.authors.len()).unwrap_or(u32::MAX);
            let author = *self.authors.entry(author).or_insert(next);
            self.theses.insert(index, CountedThesis { created_at, id, author });
        }
    }

    pub fn remove(&mut self, created_at: i64, id: &str) {
        if let Ok(index) = self.find(created_at, id) {
            self.theses.remove(index);
        }
    }

    /// The theses that another list does not have.
    pub fn without(&self, other: &Self) -> Self {
        let mut rest = self.clone();
        rest.theses.retain(|thesis| other.find(thesis.created_at, &thesis.id).is_err());
        rest
    }

    pub fn oldest(&self) -> Option<i64> {
        self.theses.first().map(|thesis| thesis.created_at)
    }

    pub fn len(&self) -> usize {
        self.theses.len()
    }

    /// Drops theses older than `from`, and authors without theses.
    pub fn forget_before(&mut self, from: i64) {
        let mut authors = HashMap::new();
        let names: HashMap<u32, String> = self.authors.drain().map(|(name, author)| (author, name)).collect();
        self.theses.retain_mut(|thesis| {
            if thesis.created_at < from {
                return false;
            }
            if let Some(name) = names.get(&thesis.author) {
                let next = u32::try_from(authors.len()).unwrap_or(u32::MAX);
                thesis.author = *authors.entry(name.clone()).or_insert(next);
            }
            true
        });
        self.authors = authors;
    }

    /// Theses in `(after, to]`.
    fn within(&self, after: i64, to: i64) -> &[CountedThesis] {
        let start = self.theses.partition_point(|thesis| thesis.created_at <= after);
        let end = self.theses.partition_point(|thesis| thesis.created_at <= to);
        &self.theses[start..end.max(start)]
    }
}

impl FromIterator<(i64, String, String)> for TokenTheses {
    /// Builds it from times, ids and authors; oldest first is fastest.
    fn from_iter<T: IntoIterator<Item = (i64, String, String)>>(theses: T) -> Self {
        let mut recent = Self::default();
        for (created_at, id, author) in theses {
            recent.insert(created_at, id, author);
        }
        recent
    }
}

/// One hour of a timeline.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct HourCounts {
    /// Start, exclusive.
    #[prost(int64, tag = "1")]
    pub start: i64,
    #[prost(int64, tag = "2")]
    pub theses: i64,
    #[prost(int64, tag = "3")]
    pub authors: i64,
}

/// The newest thesis on a token.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct LatestThesis {
    #[prost(int64, tag = "1")]
    pub created_at: i64,
    #[prost(string, tag = "2")]
    pub id: String,
}

/// Counts of one token at one moment.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Counts {
    #[prost(int64, tag = "1")]
    pub last_5m: i64,
    #[prost(int64, tag = "2")]
    pub last_1h: i64,
    #[prost(int64, tag = "3")]
    pub previous_1h: i64,
    #[prost(int64, tag = "4")]
    pub last_24h: i64,
    #[prost(int64, tag = "5")]
    pub authors_24h: i64,
    /// The last 24 hours, oldest first; the newest ends at the moment.
    #[prost(message, repeated, tag = "6")]
    pub timeline: Vec<HourCounts>,
    /// The newest thesis of the last 24 hours.
    #[prost(message, optional, tag = "7")]
    pub latest: Option<LatestThesis>,
}

impl Counts {
    /// Time and id of the newest thesis of the last 24 hours.
    pub fn newest(&self) -> Option<(i64, String)> {
        self.latest.as_ref().map(|latest| (latest.created_at, latest.id.clone()))
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Counts a token's theses in several datasets together at `at`. A shared author counts once.
pub fn count(parts: &[&TokenTheses], at: i64) -> Counts {
    let common = common_authors(parts);
    // The hour in which an author was last seen.
    let mut seen =
        vec![0_i64; parts.first().map_or(0, |first| first.authors.len()) + common.iter().map(Vec::len).sum::<usize>()];
    let mut counts = Counts { timeline: Vec::with_capacity(24), ..Counts::default() };
    for hour in 1..=HOURS {
        let start = at - (HOURS + 1 - hour) * HOUR_MS;
        let mut bucket = HourCounts { start, theses: 0, authors: 0 };
        for (part, recent) in parts.iter().enumerate() {
            let theses = recent.within(start, start + HOUR_MS);
            bucket.theses += number(theses.len());
            for thesis in theses {
                let own = thesis.author as usize;
                let author = if part == 0 { own } else { common[part - 1][own] };
                let last = std::mem::replace(&mut seen[author], hour);
                bucket.authors += i64::from(last != hour);
                counts.authors_24h += i64::from(last == 0);
            }
        }
        counts.last_24h += bucket.theses;
        counts.timeline.push(bucket);
    }
    let sum = |from: i64, to: i64| parts.iter().map(|part| number(part.within(at - from, at - to).len())).sum();
    counts.last_5m = sum(5 * MINUTE_MS, 0);
    counts.last_1h = sum(HOUR_MS, 0);
    counts.previous_1h = sum(2 * HOUR_MS, HOUR_MS);
    let latest = parts.iter().filter_map(|part| part.within(at - DAY_MS, at).last());
    let latest = latest.max_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
    counts.latest = latest.map(|thesis| LatestThesis { created_at: thesis.created_at, id: thesis.id.clone() });
    counts
}

/// Author numbers of each part among all parts. The first part keeps its own numbers.
fn common_authors(parts: &[&TokenTheses]) -> Vec<Vec<usize>> {
    let Some((first, rest)) = parts.split_first() else { return Vec::new() };
    let mut added: HashMap<&str, usize> = HashMap::new();
    let mut all = Vec::with_capacity(rest.len());
    for part in rest {
        let mut numbers = vec![0; part.authors.len()];
        for (name, own) in &part.authors {
            let next = first.authors.len() + added.len();
            let known = first.authors.get(name).map(|author| *author as usize);
            numbers[*own as usize] = known.unwrap_or_else(|| *added.entry(name).or_insert(next));
        }
        all.push(numbers);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn windows_are_open_below_and_closed_above() {
        let at = 10 * DAY_MS;
        let edges = [0, 5 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, DAY_MS, -1];
        let recent = edges.iter().map(|age| (at - age, format!("th_{}", at - age), "a".to_owned())).collect();
        let counts = count(&[&recent], at);
        assert_eq!((counts.last_5m, counts.last_1h, counts.previous_1h, counts.last_24h), (1, 2, 1, 4));
        assert_eq!(counts.authors_24h, 1);
        assert_eq!(counts.newest(), Some((at, format!("th_{at}"))));
        let stored = prost::Message::encode_to_vec(&counts);
        assert_eq!(<Counts as prost::Message>::decode(stored.as_slice()), Ok(counts.clone()), "as cores tell it");
        assert_eq!(counts.timeline.iter().map(|hour| hour.theses).collect::<Vec<_>>()[20..], [0, 1, 1, 2]);
    }

    #[test]
    fn theses_before_a_time_are_dropped_and_those_of_another_list_left_out() {
        let list = |times: &[i64]| -> TokenTheses {
            times.iter().map(|time| (*time, format!("th_{time}"), "a".to_owned())).collect()
        };
        let mut theses = list(&[4, 5, 6]);
        let rest = theses.without(&list(&[4, 5]));
        assert_eq!((rest.len(), rest.oldest()), (1, Some(6)));
        for (from, len, oldest) in [(4, 3, Some(4)), (5, 2, Some(5)), (7, 0, None)] {
            theses.forget_before(from);
            assert_eq!((theses.len(), theses.oldest()), (len, oldest), "{from}");
        }
    }

    type Row = (i64, String, String);

    fn authors<'a>(rows: impl Iterator<Item = &'a &'a Row>) -> i64 {
        number(rows.map(|row| &row.2).collect::<HashSet<_>>().len())
    }

    proptest! {
        /// The counts of two datasets are those of a naive recount.
        #[test]
        fn counts_are_a_recount(
            steps in prop::collection::vec((any::<bool>(), 0..3_u8, 0..200_i64, 0..6_u8), 0..120),
            kept in 0..30_i64,
            at in 0..200_i64,
        ) {
            const STEP: i64 = 20 * MINUTE_MS;
            let at = at * STEP;
            let mut rows: [BTreeSet<Row>; 2] = Default::default();
            let mut parts = [TokenTheses::default(), TokenTheses::default()];
            for (second, verb, time, author) in steps {
                let part = usize::from(second);
                let (time, id, author) = (time * STEP, format!("th_{time}_{author}"), format!("fp_{author}"));
                if verb == 0 {
                    rows[part].remove(&(time, id.clone(), author));
                    parts[part].remove(time, &id);
                } else {
                    rows[part].insert((time, id.clone(), author.clone()));
                    parts[part].insert(time, id, author);
                }
            }
            parts[0].forget_before(at - DAY_MS - kept);
            let all: Vec<&Row> = rows.iter().flatten().collect();
            let within = |after: i64, to: i64| {
                all.iter().copied().filter(move |row| row.0 > after && row.0 <= to).collect::<Vec<&Row>>()
            };
            let counts = count(&[&parts[0], &parts[1]], at);
            let day = within(at - DAY_MS, at);
            prop_assert_eq!(counts.last_24h, number(day.len()));
            prop_assert_eq!(counts.authors_24h, authors(day.iter()));
            prop_assert_eq!(counts.last_5m, number(within(at - 5 * MINUTE_MS, at).len()));
            prop_assert_eq!(counts.last_1h, number(within(at - HOUR_MS, at).len()));
            prop_assert_eq!(counts.previous_1h, number(within(at - 2 * HOUR_MS, at - HOUR_MS).len()));
            prop_assert_eq!(counts.newest(), day.iter().map(|row| (row.0, row.1.clone())).max());
            for hour in counts.timeline {
                let inside = within(hour.start, hour.start + HOUR_MS);
                prop_assert_eq!((hour.theses, hour.authors), (number(inside.len()), authors(inside.iter())));
            }
        }
    }
}
