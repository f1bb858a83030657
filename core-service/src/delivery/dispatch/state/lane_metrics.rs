//! Metrics of the lanes in a dispatcher's memory.

use super::State;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneMetrics {
    /// Due attempts in memory.
    pub ready: usize,
    pub out: usize,
    /// Age of the oldest due attempt that is not out, in milliseconds.
    pub oldest_ms: i64,
}

impl State {
    /// The normal and the slow lane. Deliveries that wait until their webhook is enabled count in neither.
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
