//! What goes out by itself: the frames of streams, and the deliveries of webhooks.

use super::{CONCERNED, Event, SECOND, Step, World, hop};
use crate::capacity::{costs as cost, queue::Time};

/// Interval at which an edge's signs of life are sent together.
const SIGN_INTERVAL: Time = SECOND / 10;

impl World<'_> {
    /// An edge sends an event to the streams that it concerns.
    pub(super) fn frames(&mut self, edge: usize, event: Event) {
        let concerned = self.load.streams as f64 * CONCERNED[usize::from(event.hot)] / self.edges.len() as f64;
        self.edges[edge].take(self.now, cost::EDGE_RENDER);
        let done = self.edges[edge].share(self.now, concerned * cost::EDGE_FRAME);
        if !event.derived {
            self.frames.push(done + hop() - event.posted);
        }
    }

    /// Edges send signs of life, and do so again.
    pub(super) fn signs(&mut self) {
        let part = SIGN_INTERVAL as f64 / SECOND as f64 / cost::SIGN_SECONDS;
        let signs = self.load.streams as f64 / self.edges.len() as f64 * part;
        for edge in &mut self.edges {
            edge.share(self.now, signs * cost::EDGE_SIGN);
        }
        self.at(self.now + SIGN_INTERVAL, Step::Signs);
    }

    /// A core hands a due delivery out.
    pub(super) fn dispatch(&mut self, posted: Time) {
        let core = self.random.below(self.cores.len());
        let done = self.cores[core].take(self.now, cost::CORE_DISPATCH);
        self.at(done + hop(), Step::Send { posted });
    }

    /// A worker sends it.
    pub(super) fn send(&mut self, posted: Time) {
        let worker = self.random.below(self.workers.len());
        let done = self.workers[worker].take(self.now, cost::WORKER_SEND);
        self.arrivals.push(done + hop() - posted);
        self.at(done + hop(), Step::Report);
    }

    /// A core keeps its outcome.
    pub(super) fn report(&mut self) {
        let core = self.random.below(self.cores.len());
        self.cores[core].take(self.now, cost::CORE_REPORT);
        self.write(self.now, cost::DELIVERY_WRITES_AFTER);
    }
}
