//! The store: what a request costs its copies, and when a quorum has answered.

use super::{World, hop};
use crate::capacity::{costs as cost, queue::Time};

impl World<'_> {
    /// Reads rows side by side at a quorum; gives when all are there.
    pub(super) fn read(&mut self, rows: usize) -> Time {
        (0..rows).map(|_| self.ask(self.now, cost::QUORUM, cost::STORE_READ)).max().unwrap_or(self.now)
    }

    /// Writes partitions side by side; gives when a quorum has each.
    pub(super) fn write(&mut self, now: Time, partitions: usize) -> Time {
        (0..partitions).map(|_| self.ask(now, cost::COPIES, cost::STORE_WRITE)).max().unwrap_or(now)
    }

    /// A conditional write, which takes several rounds.
    pub(super) fn conditional(&mut self, now: Time) -> Time {
        self.ask(now, cost::COPIES, cost::STORE_CONDITION) + (cost::CONDITION_HOPS * cost::HOP * 1e3) as Time
    }

    /// Gives each of some copies its part; gives when a quorum has answered.
    fn ask(&mut self, now: Time, copies: usize, micros: f64) -> Time {
        let first = self.random.below(self.nodes.len());
        let mut answers = [0; cost::COPIES];
        for (copy, answer) in answers.iter_mut().enumerate().take(copies) {
            let node = (first + copy) % self.nodes.len();
            *answer = self.nodes[node].take(now + hop(), micros) + hop();
        }
        let answered = &mut answers[..copies];
        answered.sort_unstable();
        answered[cost::QUORUM - 1]
    }
}
