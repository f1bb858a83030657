//! The parts of a queue's minutes that this process knows, so that one read passes few removed rows.

use std::{
    collections::{BTreeSet, HashMap},
    mem::take,
    sync::Arc,
};

use parking_lot::Mutex;

/// Number of minutes of webhooks in each half. The marks of forgotten minutes are read from the store.
const HALF: usize = 20_000;

/// The marks of a minute of a webhook.
#[derive(Default)]
struct KnownMarks {
    /// The due times at which they begin.
    begins: BTreeSet<i64>,
    /// True if another process has written some of them, which this one does not know.
    has_foreign: bool,
}

/// By webhook and minute.
type MarkedMinutes = HashMap<(String, i64), KnownMarks>;

#[derive(Clone, Default)]
pub(super) struct QueueParts(Arc<Mutex<(MarkedMinutes, MarkedMinutes)>>);

impl QueueParts {
    /// Notes that marks of rows that are due in a minute begin at these times.
    pub(super) fn add(&self, webhook: &str, minute: i64, begins: impl IntoIterator<Item = i64>) {
        self.update(webhook, minute, |known| known.begins.extend(begins));
    }

    /// Notes that another process has written rows that are due in a minute.
    pub(super) fn add_foreign(&self, webhook: &str, minute: i64) {
        self.update(webhook, minute, |known| known.has_foreign = true);
    }

    fn update(&self, webhook: &str, minute: i64, update: impl FnOnce(&mut KnownMarks)) {
        let mut halves = self.0.lock();
        let (new, old) = &mut *halves;
        if new.len() >= HALF {
            *old = take(new);
        }
        update(new.entry((webhook.to_owned(), minute)).or_default());
    }

    /// True if no marks of a minute need to be read: some are known, and no other process has written any.
    pub(super) fn has_all(&self, webhook: &str, minute: i64) -> bool {
        let (halves, place) = (self.0.lock(), (webhook.to_owned(), minute));
        let known = [halves.0.get(&place), halves.1.get(&place)];
        let mut known = known.into_iter().flatten().peekable();
        known.peek().is_some() && known.all(|marks| !marks.has_foreign)
    }

    /// Divides a range of times of a minute where known marks begin.
    pub(super) fn divide(&self, webhook: &str, minute: i64, from: i64, to: i64) -> Vec<(i64, i64)> {
        let (halves, place) = (self.0.lock(), (webhook.to_owned(), minute));
        let known = [halves.0.get(&place), halves.1.get(&place)].into_iter().flatten();
        let begins: BTreeSet<i64> = known.flat_map(|marks| &marks.begins).copied().collect();
        let mut parts = vec![(from, to)];
        for begin in begins.into_iter().filter(|begin| (from + 1..=to).contains(begin)) {
            if let Some((_, end)) = parts.last_mut() {
                *end = begin - 1;
            }
            parts.push((begin, to));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_divided_where_marks_begin() {
        let parts = QueueParts::default();
        assert!(!parts.has_all("wh_1", 0));
        assert_eq!(parts.divide("wh_1", 0, 10, 50), [(10, 50)]);
        parts.add("wh_1", 0, [30, 20]);
        for number in 0..i64::try_from(HALF).unwrap() {
            parts.add("wh_2", number, []);
        }
        parts.add("wh_1", 0, [10, 40, 60]);
        assert_eq!(parts.divide("wh_1", 0, 10, 50), [(10, 19), (20, 29), (30, 39), (40, 50)]);
        assert_eq!(parts.divide("wh_1", 0, 30, 30), [(30, 30)]);
        assert_eq!(parts.divide("wh_2", 1, 10, 50), [(10, 50)]);
        let has_all = [("wh_1", 0), ("wh_1", 1), ("wh_2", 1)].map(|(webhook, minute)| parts.has_all(webhook, minute));
        assert_eq!(has_all, [true, false, true]);
        parts.add_foreign("wh_1", 0);
        parts.add("wh_1", 0, [25]);
        assert!(!parts.has_all("wh_1", 0));
    }
}
