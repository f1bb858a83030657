//! The log of live data: one batch at a time, and what follows from each event.

use super::{COMPANY, CONCERNED, DERIVED_MOST, Event, HOT_ONE_IN, Step, World, hop};
use crate::capacity::costs as cost;

impl World<'_> {
    /// A thesis is posted, and the next one follows.
    pub(super) fn post(&mut self) {
        let next = self.now + self.gap(self.load.theses);
        self.at(next, Step::Post);
        let hot = self.random.below(HOT_ONE_IN) == 0;
        self.append([Event { posted: self.now, hot, derived: false }]);
    }

    /// Hands events to the log, whose writer takes all that wait as one batch.
    pub(super) fn append<const COUNT: usize>(&mut self, events: [Event; COUNT]) {
        self.waiting.extend(events);
        if self.appending || self.waiting.is_empty() {
            return;
        }
        self.appending = true;
        let batch: Vec<Event> = self.waiting.drain(..self.waiting.len().min(cost::BATCH)).collect();
        let made = self.cores[0].take(self.now, batch.len() as f64 * cost::CORE_EVENT);
        self.at(made, Step::Made(batch));
    }

    /// Its owner writes a batch into the log.
    pub(super) fn made(&mut self, batch: Vec<Event>) {
        let done = self.conditional(self.now);
        self.at(done, Step::Appended(batch));
    }

    /// The rows of a batch are written.
    pub(super) fn appended(&mut self, batch: Vec<Event>) {
        let rows = cost::EVENT_ROWS * batch.len() + cost::BATCH_REQUESTS;
        let done = self.write(self.now, rows);
        self.at(done, Step::Projected(batch));
    }

    /// The rows are there: tells edges, search indexes and webhooks, and begins the next batch.
    pub(super) fn projected(&mut self, batch: &[Event]) {
        self.appending = false;
        self.append([]);
        self.events += batch.len() as u64;
        for event in batch {
            for core in 0..self.cores.len() {
                if core > 0 {
                    // The owner has the event in memory.
                    self.read(1);
                }
                self.cores[core].take(self.now, cost::CORE_SEARCH);
            }
            for edge in 0..self.edges.len() {
                let core = edge % self.cores.len();
                let told = self.cores[core].take(self.now, cost::CORE_TAIL);
                self.at(told + hop(), Step::Frames { edge, event: *event });
            }
            if !event.derived {
                let concerned = self.load.webhooks as f64 * CONCERNED[usize::from(event.hot)];
                let drawn = self.random.below(1_000) as f64 / 1e3;
                let deliveries = (concerned + drawn) as usize;
                for _ in 0..deliveries {
                    // The owner matches it, and the core that will give it to a worker makes its rows.
                    let matched = self.cores[0].take(self.now, cost::CORE_MATCH);
                    let core = self.random.below(self.cores.len());
                    let made = self.cores[core].take(self.now, cost::CORE_FAN_OUT).max(matched + hop());
                    let stored = self.write(self.now, cost::DELIVERY_ROWS_BEFORE);
                    self.at(made.max(stored), Step::Dispatch { posted: event.posted });
                }
                let drawn = self.random.below(1_000) as f64 / 1e3;
                if drawn < DERIVED_MOST / self.load.theses {
                    self.at(self.now + COMPANY, Step::Derive(Event { derived: true, ..*event }));
                }
            }
        }
    }
}
