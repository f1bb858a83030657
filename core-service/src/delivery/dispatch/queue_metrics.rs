//! Metrics of a dispatcher.

use super::{Dispatcher, state::LaneMetrics};

#[derive(Clone, Copy, Debug)]
pub struct QueueMetrics {
    /// Shards whose attempts it hands out.
    pub shards: usize,
    pub workers: usize,
    /// The lane of webhooks whose endpoints answer.
    pub normal: LaneMetrics,
    /// The lane that the others share.
    pub slow: LaneMetrics,
}

impl Dispatcher {
    pub fn queue_metrics(&self) -> QueueMetrics {
        let now_ms = self.shared.clock.now_ms();
        let shards = self.shards.held().len();
        let state = self.state.lock();
        let [normal, slow] = state.lanes(now_ms);
        QueueMetrics { shards, workers: state.workers.len(), normal, slow }
    }
}
