//! What metrics tell of a dispatcher's memory.

use super::State;

/// A lane of webhooks now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneMetrics {
    /// Due attempts in memory.
    pub ready: usize,
    /// Attempts that are out.
    pub out: usize,
    /// Milliseconds since the first attempt was due that is not out.
    pub oldest_ms: i64,
}

impl State {
    /// The normal and the slow lane. What waits until its webhook is enabled counts in neither.
    pub(in crate::delivery::dispatch) fn lanes(&self, now_ms: i64) -> [LaneMetrics; 2] {
        let mut lanes = [LaneMetrics::default(); 2];
        for endpoint in self.endpoints.values() {
            let lane = &mut lanes[usize::from(endpoint.is_slow(now_ms))];
            lane.ready += endpoint.ready.len();
            lane.out += endpoint.out.len();
            let due_at = endpoint.first_due().unwrap_or(now_ms);
            lane.oldest_ms = lane.oldest_ms.max(now_ms - due_at);
        }
        lanes
    }
}
