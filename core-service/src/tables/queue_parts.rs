//! The parts of a queue's minutes that this process knows, so that one read passes few removed rows.

use std::{
    collections::{BTreeSet, HashMap},
    mem::take,
    sync::Arc,
};

use parking_lot::Mutex;

/// Number of minutes of webhooks in each of the two halves. Those of others are read again.
const HALF: usize = 20_000;

/// By webhook and minute: the due times at which the marks of its rows begin.
type Begins = HashMap<(String, i64), BTreeSet<i64>>;

#[derive(Clone, Default)]
pub(super) struct QueueParts(Arc<Mutex<(Begins, Begins)>>);

impl QueueParts {
    /// Notes that marks of rows that are due in a minute begin at these times.
    pub(super) fn add(&self, webhook: &str, minute: i64, begins: impl IntoIterator<Item = i64>) {
        let mut halves = self.0.lock();
        let (new, old) = &mut *halves;
        if new.len() >= HALF {
            *old = take(new);
        }
        new.entry((webhook.to_owned(), minute)).or_default().extend(begins);
    }

    /// Divides a range of times of a minute where marks begin. None if no mark of this minute is known.
    pub(super) fn divide(&self, webhook: &str, minute: i64, from: i64, to: i64) -> Option<Vec<(i64, i64)>> {
        let (halves, place) = (self.0.lock(), (webhook.to_owned(), minute));
        let known = [halves.0.get(&place), halves.1.get(&place)];
        if known.iter().all(Option::is_none) {
            return None;
        }
        let begins: BTreeSet<i64> = known.into_iter().flatten().flatten().copied().collect();
        let mut parts = vec![(from, to)];
        for begin in begins.into_iter().filter(|begin| (from + 1..=to).contains(begin)) {
            if let Some((_, end)) = parts.last_mut() {
                *end = begin - 1;
            }
            parts.push((begin, to));
        }
        Some(parts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_divided_where_marks_begin() {
        let parts = QueueParts::default();
        assert_eq!(parts.divide("wh_1", 0, 10, 50), None);
        parts.add("wh_1", 0, [30, 20]);
        for number in 0..i64::try_from(HALF).unwrap() {
            parts.add("wh_2", number, []);
        }
        parts.add("wh_1", 0, [10, 40, 60]);
        assert_eq!(parts.divide("wh_1", 0, 10, 50), Some(vec![(10, 19), (20, 29), (30, 39), (40, 50)]));
        assert_eq!(parts.divide("wh_1", 0, 30, 30), Some(vec![(30, 30)]));
        assert_eq!(parts.divide("wh_2", 1, 10, 50), Some(vec![(10, 50)]));
        assert_eq!(parts.divide("wh_1", 1, 10, 50), None);
    }
}
