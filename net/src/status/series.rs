//! The latencies and outcomes that the public status shows. Each is measured once in a process, whatever its roles.

use std::sync::OnceLock;

use thesis_proto::v1::{self, ProcessRole};

use super::{
    buckets::{BUCKETS, bucket_of},
    window::Window,
};
use crate::clock::SharedClock;

/// The label of routes without a rate class.
pub const NO_CLASS: &str = "none";

/// A latency that is measured.
pub struct Latency {
    role: ProcessRole,
    name: &'static str,
    /// Empty unless it is one of requests.
    class: &'static str,
    window: Window<BUCKETS>,
}

impl Latency {
    const fn new(role: ProcessRole, name: &'static str, class: &'static str) -> Self {
        Self { role, name, class, window: Window::new() }
    }

    const fn of_requests(role: ProcessRole, class: &'static str) -> Self {
        Self::new(role, "request", class)
    }

    /// Counts a time.
    pub fn record(&self, seconds: f64) {
        self.window.add(bucket_of(seconds), 1);
    }

    /// Counts the time from an event until now. Nothing is counted before [`set_clock`].
    pub fn record_since(&self, event_ms: i64) {
        if let Some(clock) = CLOCK.get() {
            self.record((clock.now_us() - event_ms * 1_000) as f64 / 1_000_000.0);
        }
    }

    fn report(&self, minute: i64) -> v1::LatencyReport {
        let [window, before] = self.window.read(minute);
        v1::LatencyReport {
            role: self.role.into(),
            name: self.name.to_owned(),
            class: self.class.to_owned(),
            window: Some(window.to_message()),
            minute: Some(before.to_message()),
        }
    }
}

/// The clock that gives the ends of times that began with an event.
static CLOCK: OnceLock<SharedClock> = OnceLock::new();

/// Gives the clock for [`Latency::record_since`]; the first one stays.
pub fn set_clock(clock: SharedClock) {
    CLOCK.get_or_init(|| clock);
}

static EDGE_REQUESTS: [Latency; 4] = [
    Latency::of_requests(ProcessRole::Edge, "standard"),
    Latency::of_requests(ProcessRole::Edge, "heavy"),
    Latency::of_requests(ProcessRole::Edge, "verify"),
    Latency::of_requests(ProcessRole::Edge, NO_CLASS),
];
/// Operations all have a class.
static CORE_REQUESTS: [Latency; 3] = [
    Latency::of_requests(ProcessRole::Core, "standard"),
    Latency::of_requests(ProcessRole::Core, "heavy"),
    Latency::of_requests(ProcessRole::Core, "verify"),
];
/// From an event until an edge has written it to a live stream.
pub static EDGE_FRAMES: Latency = Latency::new(ProcessRole::Edge, "event_to_frame", "");
/// From an event until a core has written it to a live stream over gRPC.
pub static CORE_FRAMES: Latency = Latency::new(ProcessRole::Core, "event_to_frame", "");
/// From an event until its endpoint has confirmed the first attempt.
pub static DELIVERIES: Latency = Latency::new(ProcessRole::Worker, "event_to_delivery", "");
/// One request to an endpoint.
pub static ATTEMPTS: Latency = Latency::new(ProcessRole::Worker, "attempt", "");

/// The latency of an edge's requests of a rate class.
pub fn edge_requests(class: &str) -> &'static Latency {
    requests(&EDGE_REQUESTS, class)
}

/// The latency of a core's calls of a rate class.
pub fn core_requests(class: &str) -> &'static Latency {
    requests(&CORE_REQUESTS, class)
}

fn requests(all: &'static [Latency], class: &str) -> &'static Latency {
    all.iter().find(|latency| latency.class == class).unwrap_or(&all[all.len() - 1])
}

/// What became of a delivery by an attempt.
#[derive(Clone, Copy, Debug)]
pub enum Outcome {
    /// Its endpoint confirmed it.
    Delivered,
    /// It waits for another attempt.
    Retrying,
    /// It was given up.
    Failed,
}

static OUTCOMES: Window<3> = Window::new();

/// Counts the outcome of a delivery.
pub fn count_delivery(outcome: Outcome) {
    OUTCOMES.add(outcome as usize, 1);
}

/// The latencies of roles, and the outcomes of deliveries if one of them is core, over the minutes up to this one.
pub(super) fn read(roles: &[ProcessRole], minute: i64) -> (Vec<v1::LatencyReport>, Option<v1::DeliverySummary>) {
    let requests = EDGE_REQUESTS.iter().chain(&CORE_REQUESTS);
    let latencies = requests.chain([&EDGE_FRAMES, &CORE_FRAMES, &DELIVERIES, &ATTEMPTS]);
    let latencies = latencies.filter(|latency| roles.contains(&latency.role));
    let deliveries = roles.contains(&ProcessRole::Core).then(|| {
        let [counts, _] = OUTCOMES.read(minute);
        let count = |outcome: Outcome| i64::try_from(counts.count_of(outcome as u32)).unwrap_or(i64::MAX);
        v1::DeliverySummary {
            delivered: count(Outcome::Delivered),
            retrying: count(Outcome::Retrying),
            failed: count(Outcome::Failed),
            success_ratio: None,
        }
    });
    (latencies.map(|latency| latency.report(minute)).collect(), deliveries)
}
