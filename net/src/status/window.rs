//! Counts of the last 30 minutes, by minute.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU32, Ordering},
};

use parking_lot::Mutex;

use super::buckets::Buckets;

/// Number of minutes that a window covers, the current one included.
const MINUTES: i64 = 30;

/// Counts by number, which is the bucket of a histogram or the outcome of something.
pub(super) struct Window<const N: usize> {
    /// What came since the last read.
    counts: [AtomicU32; N],
    /// The minutes with counts, oldest first.
    minutes: Mutex<VecDeque<(i64, Buckets)>>,
}

impl<const N: usize> Window<N> {
    pub(super) const fn new() -> Self {
        Self { counts: [const { AtomicU32::new(0) }; N], minutes: Mutex::new(VecDeque::new()) }
    }

    pub(super) fn add(&self, index: usize, count: u32) {
        self.counts[index].fetch_add(count, Ordering::Relaxed);
    }

    /// Adds what came since the last read to a minute, the current one. Gives the sum of all minutes, and the counts of
    /// the minute before.
    pub(super) fn read(&self, minute: i64) -> [Buckets; 2] {
        let mut minutes = self.minutes.lock();
        let mut current = match minutes.pop_back() {
            // A clock may be set back.
            Some((known, counts)) if known >= minute => counts,
            Some(earlier) => {
                minutes.push_back(earlier);
                Buckets::default()
            }
            None => Buckets::default(),
        };
        for (index, count) in (0..).zip(&self.counts) {
            // Most buckets are empty, and need no write.
            if count.load(Ordering::Relaxed) > 0 {
                current.add_one(index, count.swap(0, Ordering::Relaxed).into());
            }
        }
        minutes.push_back((minute, current));
        minutes.retain(|(known, _)| (minute - MINUTES + 1..=minute).contains(known));
        let (mut sum, mut before) = (Buckets::default(), Buckets::default());
        for (known, counts) in &*minutes {
            sum.add_all(counts);
            if *known == minute - 1 {
                before.clone_from(counts);
            }
        }
        [sum, before]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_leave_after_thirty_minutes() {
        let window = Window::<3>::new();
        let counts = |minute| {
            let [sum, before] = window.read(minute);
            [[0, 1, 2].map(|index| sum.count_of(index)), [0, 1, 2].map(|index| before.count_of(index))]
        };
        assert_eq!(counts(100), [[0; 3]; 2]);
        window.add(0, 2);
        assert_eq!(counts(100), [[2, 0, 0], [0; 3]]);
        window.add(0, 1);
        window.add(2, 5);
        assert_eq!(counts(100), [[3, 0, 5], [0; 3]]);
        window.add(1, 1);
        assert_eq!(counts(101), [[3, 1, 5], [3, 0, 5]]);
        assert_eq!(counts(102), [[3, 1, 5], [0, 1, 0]]);
        assert_eq!(counts(129), [[3, 1, 5], [0; 3]]);
        assert_eq!(counts(130), [[0, 1, 0], [0; 3]]);
        assert_eq!(counts(131), [[0; 3]; 2]);
    }

    #[test]
    fn a_clock_that_is_set_back_loses_no_more_than_the_minutes_ahead() {
        let window = Window::<1>::new();
        window.add(0, 1);
        drop(window.read(100));
        window.add(0, 1);
        assert_eq!(window.read(99)[0].count(), 2);
        window.add(0, 1);
        assert_eq!(window.read(100)[0].count(), 3);
    }
}
