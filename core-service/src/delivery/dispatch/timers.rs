//! The next due times of webhooks.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::tables::queue::minute_of;

/// The earliest due time of each webhook and minute.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_time: BTreeSet<(i64, Arc<str>)>,
    by_minute: HashMap<(Arc<str>, i64), i64>,
}

impl Timers {
    /// Notes that a webhook has a delivery due at a time. The read at the first time of a minute finds the later ones.
    pub(super) fn set(&mut self, webhook: &Arc<str>, due_at: i64) {
        let place = (Arc::clone(webhook), minute_of(due_at));
        match self.by_minute.get_mut(&place) {
            Some(first) if *first <= due_at => {}
            Some(first) => {
                self.by_time.remove(&(*first, Arc::clone(webhook)));
                *first = due_at;
                self.by_time.insert((due_at, Arc::clone(webhook)));
            }
            None => {
                self.by_minute.insert(place, due_at);
                self.by_time.insert((due_at, Arc::clone(webhook)));
            }
        }
    }

    /// Removes and returns a webhook with a delivery that is due now, and the due time.
    pub(super) fn next_due(&mut self, now_ms: i64) -> Option<(i64, Arc<str>)> {
        let (due_at, _) = self.by_time.first()?;
        if *due_at > now_ms {
            return None;
        }
        let (due_at, webhook) = self.by_time.pop_first()?;
        self.by_minute.remove(&(Arc::clone(&webhook), minute_of(due_at)));
        Some((due_at, webhook))
    }

    pub(super) fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.by_time.retain(|(_, webhook)| keep(webhook));
        self.by_minute.retain(|(webhook, _), _| keep(webhook));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_due_at_its_first_time() {
        let (a, b): (Arc<str>, Arc<str>) = ("wh_a".into(), "wh_b".into());
        let mut timers = Timers::default();
        for (webhook, due_at) in [(&a, 70_000), (&a, 60_500), (&a, 61_000), (&b, 60_400), (&a, 130_000)] {
            timers.set(webhook, due_at);
        }
        assert_eq!(timers.next_due(60_399), None);
        let due = std::iter::from_fn(|| timers.next_due(200_000)).collect::<Vec<_>>();
        assert_eq!(due, [(60_400, b.clone()), (60_500, a.clone()), (130_000, a.clone())]);
        timers.set(&a, 1);
        timers.set(&b, 1);
        timers.retain(|webhook| webhook == "wh_b");
        assert_eq!((timers.next_due(1), timers.next_due(1)), (Some((1, b)), None));
        timers.set(&a, 2);
        assert_eq!(timers.next_due(2), Some((2, a)));
    }
}
