//! Reads: from the edge to core, which asks the store in rounds.

use super::{Step, World, hop};
use crate::capacity::{costs as cost, queue::Time};

impl World<'_> {
    /// Somebody reads at an edge, and the next one follows.
    pub(super) fn ask_edge(&mut self) {
        let next = self.now + self.gap(self.load.reads);
        self.at(next, Step::Read);
        let list = self.random.below(cost::LIST_ONE_IN) == 0;
        let edge = self.random.below(self.edges.len());
        let done = self.edges[edge].take(self.now, costs_of(list)[0]);
        self.at(done + hop(), Step::ReadAtCore { began: self.now, list });
    }

    /// A core has a read.
    pub(super) fn ask_core(&mut self, began: Time, list: bool) {
        let core = self.random.below(self.cores.len());
        let done = self.cores[core].take(self.now, costs_of(list)[1]);
        self.at(done, Step::Rows { began, list, round: 0 });
    }

    /// It asks for its next rows, or has all.
    pub(super) fn ask_store(&mut self, began: Time, list: bool, round: usize) {
        let rounds = if list { cost::LIST_ROUNDS } else { cost::ID_ROUNDS };
        match rounds.get(round) {
            Some(rows) => {
                let done = self.read(*rows);
                self.at(done, Step::Rows { began, list, round: round + 1 });
            }
            None => self.reads.push(self.now + hop() - began),
        }
    }
}

/// What a read costs at the edge and at core.
fn costs_of(list: bool) -> [f64; 2] {
    if list { cost::LIST_READ } else { cost::ID_READ }
}
