//! What a process reports of itself for the public status: that it lives, and what it measured.
//!
//! Each process sends its report every two seconds to any core, which passes it on to the others. So every core knows
//! all processes, and answers `GetStatus` from memory (`replicas/processes.rs` in core). A report holds the whole
//! window of 30 minutes, so that a core which has just started knows it too, and a lost report does no harm.

mod buckets;
mod series;
mod window;

use std::{sync::Arc, time::Duration};

use thesis_proto::v1::{self, ProcessRole};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

pub use self::{
    buckets::Buckets,
    series::{
        ATTEMPTS, CORE_FRAMES, DELIVERIES, EDGE_FRAMES, Latency, NO_CLASS, Outcome, core_requests, count_delivery,
        edge_requests, set_clock,
    },
};
use crate::{
    clock::{IdSource, SharedClock, random},
    services::{PeerCore, Trusted},
};

/// Interval between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);
/// Time limit of a report: the next one may find another core.
pub const REPORT_TIMEOUT: Duration = Duration::from_secs(1);
/// Milliseconds of a minute.
pub const MINUTE_MS: i64 = 60_000;

/// Sends the reports of a process.
pub struct Reporter {
    process: String,
    roles: Vec<ProcessRole>,
    version: &'static str,
    core: Arc<PeerCore>,
    clock: SharedClock,
}

impl Reporter {
    /// A reporter of a process with these roles. The id of the process is random, so that it tells nothing of the host.
    pub fn new(
        roles: Vec<ProcessRole>,
        version: &'static str,
        core: Arc<PeerCore>,
        clock: SharedClock,
        ids: &dyn IdSource,
    ) -> Self {
        let id: String = random::<8>(ids).iter().map(|byte| format!("{byte:02x}")).collect();
        Self { process: format!("proc_{id}"), roles, version, core, clock }
    }

    /// Reports until stopped, and then once more that the process leaves.
    pub async fn run(self, stop: CancellationToken) {
        let mut every = interval(REPORT_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            self.report(false).await;
        }
        self.report(true).await;
    }

    async fn report(&self, is_leaving: bool) {
        let (latencies, deliveries) = series::read(&self.roles, self.clock.now_ms().div_euclid(MINUTE_MS));
        let report = v1::ReportProcessRequest {
            process: self.process.clone(),
            roles: self.roles.iter().map(|role| (*role).into()).collect(),
            version: self.version.to_owned(),
            is_leaving,
            relay: true,
            is_failing: false,
            latencies,
            deliveries,
            feed: None,
        };
        let sent = timeout(REPORT_TIMEOUT, self.core.report_process(Trusted::request(report))).await;
        if let Ok(Err(status)) = sent {
            tracing::debug!(status = status.message(), "a core did not take the report of this process");
        }
    }
}
