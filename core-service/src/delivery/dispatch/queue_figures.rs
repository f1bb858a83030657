//! What metrics tell of a dispatcher.

use super::{Dispatcher, state::LaneFigures};

/// A dispatcher's queue now.
#[derive(Clone, Copy, Debug)]
pub struct QueueFigures {
    /// Shards whose attempts it hands out.
    pub shards: usize,
    /// Workers that are connected.
    pub workers: usize,
    /// The lane of webhooks whose endpoints answer.
    pub normal: LaneFigures,
    /// The lane that the others share.
    pub slow: LaneFigures,
}

impl Dispatcher {
    /// The queue now.
    #[must_use]
    pub fn queue(&self) -> QueueFigures {
        let now_ms = self.shared.clock.now_ms();
        let shards = self.shards.held().len();
        let state = self.state.lock();
        let [normal, slow] = state.lanes(now_ms);
        QueueFigures { shards, workers: state.workers.len(), normal, slow }
    }
}
