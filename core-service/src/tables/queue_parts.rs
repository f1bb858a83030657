//! The parts of a queue's minutes that this process knows, so that one read passes few removed rows.
//!
//! A process knows all marks of a minute once it has read them, and then adds its own. It reads them again when another
//! process may have written marks, and when it has forgotten them.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    /// True if these are all marks.
    is_complete: bool,
}

/// By webhook and minute.
type MarkedMinutes = BTreeMap<(String, i64), KnownMarks>;

#[derive(Default)]
struct State {
    new: MarkedMinutes,
    old: MarkedMinutes,
    /// Number of times at which other processes may have written marks.
    foreign_writes: u64,
}

impl State {
    fn known(&self, webhook: &str, minute: i64) -> impl Iterator<Item = &KnownMarks> {
        let place = (webhook.to_owned(), minute);
        [self.new.get(&place), self.old.get(&place)].into_iter().flatten()
    }

    fn known_mut(&mut self, webhook: &str, minute: i64) -> &mut KnownMarks {
        if self.new.len() >= HALF {
            self.old = take(&mut self.new);
        }
        self.new.entry((webhook.to_owned(), minute)).or_default()
    }
}

#[derive(Clone, Default)]
pub(super) struct QueueParts(Arc<Mutex<State>>);

impl QueueParts {
    /// Notes that marks of rows that are due in a minute begin at these times.
    pub(super) fn add(&self, webhook: &str, minute: i64, begins: impl IntoIterator<Item = i64>) {
        self.0.lock().known_mut(webhook, minute).begins.extend(begins);
    }

    /// Number of times at which other processes may have written marks, for [`Self::complete`].
    pub(super) fn foreign_writes(&self) -> u64 {
        self.0.lock().foreign_writes
    }

    /// Notes the begins of all marks of a minute, which were read when `foreign_writes` was this number.
    pub(super) fn complete(&self, webhook: &str, minute: i64, begins: BTreeSet<i64>, foreign_writes: u64) {
        let mut state = self.0.lock();
        let is_complete = state.foreign_writes == foreign_writes;
        let known = state.known_mut(webhook, minute);
        known.begins.extend(begins);
        known.is_complete |= is_complete;
    }

    /// Notes that another process has written rows of a webhook, the first of which is due in this minute.
    pub(super) fn add_foreign(&self, webhook: &str, minute: i64) {
        let mut state = self.0.lock();
        state.foreign_writes += 1;
        let State { new, old, .. } = &mut *state;
        for half in [new, old] {
            let later = half.range_mut((webhook.to_owned(), minute)..=(webhook.to_owned(), i64::MAX));
            later.for_each(|(_, known)| known.is_complete = false);
        }
    }

    /// Notes that other processes may have written rows of any webhook.
    pub(super) fn add_foreign_anywhere(&self) {
        let mut state = self.0.lock();
        state.foreign_writes += 1;
        let State { new, old, .. } = &mut *state;
        new.values_mut().chain(old.values_mut()).for_each(|known| known.is_complete = false);
    }

    /// True if no marks of a minute need to be read.
    pub(super) fn has_all(&self, webhook: &str, minute: i64) -> bool {
        self.0.lock().known(webhook, minute).any(|known| known.is_complete)
    }

    /// Divides a range of times of a minute where known marks begin.
    pub(super) fn divide(&self, webhook: &str, minute: i64, from: i64, to: i64) -> Vec<(i64, i64)> {
        let state = self.0.lock();
        let begins: BTreeSet<i64> = state.known(webhook, minute).flat_map(|known| &known.begins).copied().collect();
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

    /// Fills a half with minutes of another webhook.
    fn fill_half(parts: &QueueParts) {
        (0..i64::try_from(HALF).unwrap()).for_each(|minute| parts.add("wh_2", minute, []));
    }

    #[test]
    fn a_range_is_divided_where_marks_begin() {
        let parts = QueueParts::default();
        assert_eq!(parts.divide("wh_1", 0, 10, 50), [(10, 50)]);
        parts.add("wh_1", 0, [30, 20]);
        fill_half(&parts);
        parts.add("wh_1", 0, [10, 40, 60]);
        assert_eq!(parts.divide("wh_1", 0, 10, 50), [(10, 19), (20, 29), (30, 39), (40, 50)]);
        assert_eq!(parts.divide("wh_1", 0, 30, 30), [(30, 30)]);
        assert_eq!(parts.divide("wh_2", 1, 10, 50), [(10, 50)]);
    }

    #[test]
    fn only_a_read_makes_a_minute_complete_until_it_is_forgotten() {
        let parts = QueueParts::default();
        let has_all = |minutes: [i64; 3]| minutes.map(|minute| parts.has_all("wh_1", minute));
        parts.add("wh_1", 1, [10]);
        assert_eq!(has_all([0, 1, 2]), [false; 3]);
        parts.complete("wh_1", 1, BTreeSet::from([10, 20]), parts.foreign_writes());
        parts.complete("wh_1", 2, BTreeSet::new(), parts.foreign_writes());
        assert_eq!(has_all([0, 1, 2]), [false, true, true]);
        fill_half(&parts);
        parts.add("wh_1", 1, [30]);
        assert!(parts.has_all("wh_1", 1), "own marks change nothing");
        fill_half(&parts);
        parts.add("wh_1", 1, [40]);
        assert_eq!(has_all([0, 1, 2]), [false; 3], "the read ones are forgotten");
    }

    #[test]
    fn minutes_in_which_others_may_have_written_are_not_complete() {
        let parts = QueueParts::default();
        let complete = || (0..3).for_each(|minute| parts.complete("wh_1", minute, BTreeSet::new(), 0));
        let has_all = || [0, 1, 2].map(|minute| parts.has_all("wh_1", minute));
        complete();
        fill_half(&parts);
        parts.complete("wh_1", 2, BTreeSet::new(), 0);
        assert_eq!(has_all(), [true; 3]);
        parts.add_foreign("wh_1", 1);
        assert_eq!(has_all(), [true, false, false]);
        // This read may have missed the rows that the notification names.
        complete();
        assert_eq!(has_all(), [true, false, false]);
        parts.add_foreign_anywhere();
        assert_eq!(has_all(), [false; 3]);
    }
}
