//! The processes of the cluster, as they report themselves (`status.rs` in `thesis-net`), and the public status that
//! follows from their reports.
//!
//! Nothing depends on it but the status: who lives and who leads is decided by heartbeats.

mod history;
mod summary;
#[cfg(test)]
mod tests;

use std::collections::HashMap;

use parking_lot::Mutex;
use thesis_proto::v1;

use self::history::History;

/// Time without a report after which a process counts as stalled, in milliseconds.
const STALLED_MS: i64 = 7_000;
/// Time for which a silent process makes its role degraded, and for which its latencies and deliveries count, in
/// milliseconds. It may have been replaced since.
const CONCERN_MS: i64 = 5 * 60_000;
/// Time after which a silent process is no longer listed, in milliseconds.
const LISTED_MS: i64 = 30 * 60_000;
/// Limit of listed processes. The one that has been silent for longest gives way.
const MAX_PROCESSES: usize = 1_000;
/// Time for which the same status answers all reads, in milliseconds.
const CACHED_MS: i64 = 1_000;

/// A process, and its last report.
struct Process {
    seen_at: i64,
    report: v1::ReportProcessRequest,
}

impl Process {
    /// Time since the last report. It is 0 after the clock was set back.
    fn silence_ms(&self, now_ms: i64) -> i64 {
        (now_ms - self.seen_at).max(0)
    }

    fn state(&self, now_ms: i64) -> v1::ProcessState {
        if self.silence_ms(now_ms) > STALLED_MS {
            v1::ProcessState::Stalled
        } else if self.report.is_failing {
            v1::ProcessState::Failing
        } else {
            v1::ProcessState::Ok
        }
    }

    /// True if its last report still says something of the present.
    fn concerns(&self, now_ms: i64) -> bool {
        self.silence_ms(now_ms) <= CONCERN_MS
    }
}

#[derive(Default)]
struct Board {
    processes: HashMap<String, Process>,
    history: History,
    /// The status, after the time at which it was put together.
    cached: Option<(i64, v1::ServiceStatus)>,
}

/// What is known of all processes.
#[derive(Default)]
pub struct Processes(Mutex<Board>);

impl Processes {
    /// Takes the report of a process.
    pub fn receive(&self, report: v1::ReportProcessRequest, now_ms: i64) {
        let mut board = self.0.lock();
        let Board { processes, history, .. } = &mut *board;
        if report.is_leaving {
            processes.remove(&report.process);
        } else {
            processes.insert(report.process.clone(), Process { seen_at: now_ms, report });
        }
        processes.retain(|_, process| process.silence_ms(now_ms) <= LISTED_MS);
        if processes.len() > MAX_PROCESSES
            && let Some(oldest) = processes.iter().min_by_key(|(_, process)| process.seen_at)
        {
            let oldest = oldest.0.clone();
            processes.remove(&oldest);
        }
        history.advance(processes, now_ms);
    }

    /// The status of the service, at most a second old.
    pub fn status(&self, now_ms: i64) -> v1::ServiceStatus {
        let mut board = self.0.lock();
        if let Some((cached_at, status)) = &board.cached
            && (0..CACHED_MS).contains(&(now_ms - cached_at))
        {
            return status.clone();
        }
        let status = summary::status(&board.processes, &board.history, now_ms);
        board.cached = Some((now_ms, status.clone()));
        status
    }
}
