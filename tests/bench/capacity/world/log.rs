//! The log of live data: one batch at a time, and what follows from each event.

use super::{CONCERNED, Event, HOT_ONE_IN, MAX_DERIVING_THESES, Step, World, hop};
use crate::capacity::costs as cost;

impl World<'_> {
    /// A thesis is posted, with the derived events that it brings, and the next one follows.
    pub(super) fn post(&mut self) {
        let next = self.now + self.gap(self.load.theses);
        self.at(next, Step::Post);
        let hot = self.random.below(HOT_ONE_IN) == 0;
        let event = Event { posted: self.now, hot, derived: false };
        let drawn = self.random.below(1_000) as f64 / 1e3;
        if drawn < MAX_DERIVING_THESES / self.load.theses {
            let derived = Event { derived: true, ..event };
            self.append([event, derived, derived]);
        } else {
            self.append([event]);
        }
    }

    /// Hands events to the log, whose writer takes all that wait as one batch.
    pub(super) fn append<const COUNT: usize>(&mut self, events: [Event; COUNT]) {
        self.waiting.extend(events);
        if self.appending || self.waiting.is_empty() {
            return;
        }
        self.appending = true;
        let batch: Vec<Event> = self.waiting.drain(..self.waiting.len().min(cost::BATCH)).collect();
        let found = self.read(theses(&batch) * cost::THESIS_READS);
        self.at(found, Step::Found(batch));
    }

    /// The log's owner knows which theses are new, and makes their entries.
    pub(super) fn found(&mut self, batch: Vec<Event>) {
        let made = self.cores[0].take(self.now, batch.len() as f64 * cost::CORE_EVENT);
        self.at(made, Step::Made(batch));
    }

    /// It writes a batch into the log.
    pub(super) fn made(&mut self, batch: Vec<Event>) {
        let done = self.conditional(self.now);
        self.at(done, Step::Appended(batch));
    }

    /// It writes the rows of a batch.
    pub(super) fn appended(&mut self, batch: Vec<Event>) {
        let done = self.write(self.now, theses(&batch) * cost::THESIS_WRITES);
        self.at(done, Step::Written(batch));
    }

    /// It stores how far rows are written.
    pub(super) fn written(&mut self, batch: Vec<Event>) {
        let done = self.write(self.now, cost::CHECKPOINTS[0]);
        self.at(done, Step::Projected(batch));
    }

    /// The rows are there: tells edges, search indexes and webhooks, and begins the next batch.
    pub(super) fn projected(&mut self, batch: &[Event]) {
        self.appending = false;
        self.append([]);
        self.events += batch.len() as u64;
        self.write(self.now, cost::CHECKPOINTS[1]);
        self.read((self.cores.len() - 1) * cost::FOLLOWER_READS);
        let settings = self.read(cost::FAN_OUT_READS) - self.now;
        for event in batch {
            for core in &mut self.cores {
                core.take(self.now, cost::CORE_SEARCH);
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
                    // The owner matches it, and the core that will give it to a worker creates its rows.
                    let matched = self.cores[0].take(self.now, cost::CORE_MATCH);
                    let core = self.random.below(self.cores.len());
                    let made = self.cores[core].take(self.now, cost::CORE_FAN_OUT).max(matched + hop());
                    let notes = usize::from(self.random.below(cost::DELIVERY_NOTE_ONE_IN) == 0);
                    let stored = self.write(self.now, cost::DELIVERY_WRITES_BEFORE + notes);
                    self.at(made.max(stored) + settings, Step::Dispatch { posted: event.posted });
                }
            }
        }
    }
}

/// The theses of a batch.
fn theses(batch: &[Event]) -> usize {
    batch.iter().filter(|event| !event.derived).count()
}
