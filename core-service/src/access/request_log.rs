//! Samples the requests of API keys for the request log.
//!
//! A request adds an entry in memory and does not wait for a write. Once a second this replica stores the entries of
//! the seconds that have ended. A killed process loses the entries of its last second or two, and entries whose write
//! fails are lost too.
//!
//! The log keeps at most 20 requests per second, project and environment, over all replicas. Beyond that it drops
//! successes before errors, and each request of the same kind has the same chance to stay. An entry has the number of
//! requests that it represents.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    mem::take,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use thesis_net::{clock::Clock, services::RequestLine};
use thesis_proto::{error::ErrorCode, names::CONSOLE};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{
        control::ApiKey,
        operation::Operation,
        request_log::{LoggedRequest, RequestRow, shown_path, shown_query},
    },
    replicas::members::Members,
    store::SharedBackend,
    tables::request_log,
};

/// Maximum number of logged requests per second, project and environment.
const MAX_PER_SECOND: usize = 20;
/// Interval between two writes.
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum number of rows in one write.
const MAX_ROWS: usize = 500;
/// Maximum number of entries that wait for a write. Further ones are lost.
const MAX_WAITING: usize = 20_000;
/// Stands in the place of the HTTP method for a call over gRPC.
const GRPC: &str = "gRPC";

/// A request of a key that has ended.
pub struct NotedRequest<'a> {
    pub key: &'a ApiKey,
    pub operation: Operation,
    /// The HTTP request; none for a call over gRPC.
    pub line: Option<&'a RequestLine>,
    pub client: Option<&'a str>,
    pub request_id: &'a str,
    /// The error code, if the request failed.
    pub code: Option<ErrorCode>,
    /// Unix milliseconds.
    pub began_ms: i64,
    /// Unix milliseconds.
    pub now_ms: i64,
}

impl NotedRequest<'_> {
    fn row(&self) -> RequestRow {
        let status = |success: u16| self.code.map_or(success, |code| code.http_status());
        let rpc = || {
            // A subscription over gRPC opens a stream as an edge does.
            let name = if self.operation == Operation::Open { Operation::Subscribe } else { self.operation }.name();
            format!("/thesis.v1.{name}")
        };
        let (sent_path, sent_query) =
            self.line.map(|line| (line.uri.path(), line.uri.query().unwrap_or_default())).unwrap_or_default();
        let (method, route, path, query, status) = match self.line {
            Some(line) => (
                line.method.to_string(),
                line.route.to_string(),
                shown_path(sent_path),
                shown_query(sent_query),
                status(line.status),
            ),
            None => (GRPC.to_owned(), rpc(), rpc(), String::new(), status(200)),
        };
        let is_complete = self.line.is_none() || (path == sent_path && query == sent_query);
        let request = LoggedRequest {
            method,
            route,
            path,
            query,
            status: status.into(),
            code: self.code.map(|code| code.as_str().to_owned()),
            duration_ms: i32::try_from(self.now_ms - self.began_ms).unwrap_or(i32::MAX).max(0),
            key: self.key.id.clone(),
            address: self.client.map(str::to_owned),
            stands_for: 1,
            is_complete,
        };
        RequestRow { at: self.began_ms, id: self.request_id.to_owned(), request }
    }
}

/// The requests of one second, project and environment.
#[derive(Default)]
struct Sample {
    /// Unix seconds.
    second: i64,
    /// All successes and errors of the second.
    successes: usize,
    errors: usize,
    kept: Vec<RequestRow>,
}

impl Sample {
    /// The index of the n-th kept success or error.
    fn nth(&self, is_error: bool, n: usize) -> Option<usize> {
        let mut kept = self.kept.iter().enumerate().filter(|(_, row)| row.request.is_error() == is_error);
        kept.nth(n).map(|(index, _)| index)
    }

    fn count_kept(&self, is_error: bool) -> usize {
        self.kept.iter().filter(|row| row.request.is_error() == is_error).count()
    }

    /// Counts a request. Returns its index among at most `limit` kept ones; none if it is left out.
    fn place(&mut self, is_error: bool, limit: usize, random: &mut Random) -> Option<usize> {
        let seen = if is_error { &mut self.errors } else { &mut self.successes };
        *seen += 1;
        let seen = *seen;
        if self.kept.len() < limit {
            return Some(self.kept.len());
        }
        let kept_successes = self.count_kept(false);
        if is_error && kept_successes > 0 {
            return self.nth(false, random.below(kept_successes));
        }
        let drawn = random.below(seen);
        if drawn < self.count_kept(is_error) { self.nth(is_error, drawn) } else { None }
    }

    /// Ends the second. Returns its entries, each with the number of requests that it stands for.
    fn end(&mut self) -> Vec<RequestRow> {
        let share =
            |seen: usize, kept: usize| u32::try_from((seen + kept / 2) / kept.max(1)).unwrap_or(u32::MAX).max(1);
        let of_errors = share(self.errors, self.count_kept(true));
        let of_successes = share(self.successes, self.count_kept(false));
        let mut rows = take(&mut self.kept);
        for row in &mut rows {
            row.request.stands_for = if row.request.is_error() { of_errors } else { of_successes };
        }
        (self.successes, self.errors) = (0, 0);
        rows
    }
}

/// Random numbers for the choice of entries, by SplitMix64. Nothing secret depends on them.
#[derive(Default)]
struct Random(u64);

impl Random {
    /// A number below a bound above 0.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ (mixed >> 31);
        usize::try_from(mixed % u64::try_from(bound.max(1)).unwrap_or(u64::MAX)).unwrap_or_default()
    }
}

#[derive(Default)]
struct Waiting {
    /// By project: test and live.
    samples: BTreeMap<String, [Sample; 2]>,
    /// The entries of ended seconds, with their project and environment.
    ended: Vec<(String, RequestRow)>,
    random: Random,
}

fn scope_of(project: &str, live: bool) -> String {
    format!("{project}/{}", if live { "live" } else { "test" })
}

/// Adds the entries of a second that has ended.
fn end_sample(ended: &mut Vec<(String, RequestRow)>, project: &str, live: bool, sample: &mut Sample) {
    let rows = sample.end();
    if !rows.is_empty() && ended.len() < MAX_WAITING {
        let scope = scope_of(project, live);
        ended.extend(rows.into_iter().map(|row| (scope.clone(), row)));
    }
}

pub struct RequestLog {
    backend: SharedBackend,
    waiting: Mutex<Waiting>,
    /// This replica's part of [`MAX_PER_SECOND`].
    limit: AtomicUsize,
    failing: AtomicBool,
}

impl RequestLog {
    pub fn new(backend: SharedBackend) -> Self {
        let (waiting, limit) = (Mutex::default(), AtomicUsize::new(MAX_PER_SECOND));
        Self { backend, waiting, limit, failing: AtomicBool::new(false) }
    }

    /// Notes a request that has ended. Requests of people in the console are not in the log.
    pub fn note(&self, noted: &NotedRequest<'_>) {
        let (project, live) = (&noted.key.project_id, noted.key.live);
        if noted.key.id.starts_with(CONSOLE) {
            return;
        }
        let second = noted.now_ms.div_euclid(1_000);
        let mut waiting = self.waiting.lock();
        let Waiting { samples, ended, random } = &mut *waiting;
        let of_project = match samples.get_mut(project) {
            Some(known) => known,
            None => samples.entry(project.clone()).or_default(),
        };
        let sample = &mut of_project[usize::from(live)];
        // A request that comes late counts for the second after it.
        if second > sample.second {
            end_sample(ended, project, live, sample);
            sample.second = second;
        }
        // Only a kept request copies its texts.
        if let Some(index) = sample.place(noted.code.is_some(), self.limit.load(Ordering::Relaxed), random) {
            let row = noted.row();
            match sample.kept.get_mut(index) {
                Some(kept) => *kept = row,
                None => sample.kept.push(row),
            }
        }
    }

    /// Stores the entries once a second until stopped.
    pub async fn run(&self, members: &Members, clock: &dyn Clock, stop: &CancellationToken) {
        let mut every = tokio::time::interval(STORE_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let others = members.others();
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            let cores = others.borrow().len() + 1;
            self.limit.store((MAX_PER_SECOND / cores).max(1), Ordering::Relaxed);
            let second = clock.now_ms().div_euclid(1_000);
            self.store(|ended| ended != second).await;
        }
    }

    /// Stores all entries.
    pub async fn flush(&self) {
        self.store(|_| true).await;
    }

    /// Stores the entries of the seconds that have ended. Entries whose write fails are lost.
    async fn store(&self, has_ended: impl Fn(i64) -> bool) {
        let ended = self.take_ended(has_ended);
        for some in ended.chunks(MAX_ROWS) {
            let changes = some.iter().map(|(scope, row)| request_log::change(scope, row)).collect();
            let outcome = self.backend.apply(changes).await;
            let was_failing = self.failing.swap(outcome.is_err(), Ordering::Relaxed);
            if let (Err(error), false) = (&outcome, was_failing) {
                tracing::warn!(%error, "requests could not be stored in their log, and are left out");
            }
        }
    }

    fn take_ended(&self, has_ended: impl Fn(i64) -> bool) -> Vec<(String, RequestRow)> {
        let mut waiting = self.waiting.lock();
        let Waiting { samples, ended, .. } = &mut *waiting;
        for (project, of_project) in samples.iter_mut() {
            for (live, sample) in [false, true].into_iter().zip(of_project) {
                if has_ended(sample.second) {
                    end_sample(ended, project, live, sample);
                }
            }
        }
        samples.retain(|_, of_project| of_project.iter().any(|sample| !sample.kept.is_empty()));
        take(ended)
    }
}
