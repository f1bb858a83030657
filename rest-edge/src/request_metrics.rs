//! The metrics of requests over HTTP. A request counts under its route's template, never under its path.

use std::sync::OnceLock;

use http::{Method, StatusCode};
use parking_lot::RwLock;
use rest_edge_console as console;
use thesis_net::{
    metric::{ANY, Counter, Histogram, InProgress},
    server::{begin_refused, count_refused},
    status::{Latency, NO_CLASS, edge_requests},
};
use thesis_proto::error::ApiError;
use tokio::time::Instant;

use crate::{access::GIVEN_UP, design, docs, home, mcp, receipt_page, route::Route, status_page};

/// The edge's name in the metrics of servers.
pub(crate) const SERVER: &str = "http";

thesis_net::declare_metrics! {
    fn declare;

    REQUESTS: Counter = "http_requests_total", &[("route", ANY), ("method", ANY), ("code", ANY), ("class", ANY)],
        "Requests by the route's template, method, status and rate class; 499 is one that its client gave up";
    SECONDS: Histogram = "http_request_seconds", &[("route", ANY), ("method", ANY)],
        "Time until the head of an answer, by the route's template and method";
    IN_PROGRESS: Gauge = "http_requests_in_progress", &[],
        "Requests that are being answered; open streams are not among them";
}

/// The label of requests without a route.
const UNKNOWN: &str = "unknown";
/// The label of methods outside [`METHODS`].
const OTHER: &str = "OTHER";
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PATCH", "DELETE", "OPTIONS", "PUT", OTHER];
/// Alerts query these statuses, so their series exist from the start.
const WATCHED: [u16; 3] = [429, 500, 503];

/// Refuses a request because a limit is reached. The reason is a label of metrics: `calls`, `openings` or `bodies`.
pub(crate) fn crowded(reason: &'static str) -> ApiError {
    count_refused(SERVER, reason);
    ApiError::unavailable()
}

struct MethodCounts {
    route: &'static str,
    method: &'static str,
    class: &'static str,
    latency: &'static Latency,
    seconds: OnceLock<Histogram>,
    /// Counters by status, which are few.
    codes: RwLock<Vec<(u16, Counter)>>,
}

impl MethodCounts {
    fn new(route: &'static str, method: &'static str, class: &'static str) -> Self {
        let latency = edge_requests(class);
        Self { route, method, class, latency, seconds: OnceLock::new(), codes: RwLock::new(Vec::new()) }
    }

    fn seconds(&self) -> &Histogram {
        self.seconds.get_or_init(|| SECONDS.begin(&[self.route, self.method]))
    }

    fn code(&self, status: u16) -> Counter {
        let known = |codes: &[(u16, Counter)]| {
            codes.iter().find(|(code, _)| *code == status).map(|(_, counter)| counter.clone())
        };
        if let Some(counter) = known(&self.codes.read()) {
            return counter;
        }
        let counter = REQUESTS.begin(&[self.route, self.method, &status.to_string(), self.class]);
        self.codes.write().push((status, counter.clone()));
        counter
    }
}

/// The counts of one route's template, by method.
struct RouteCounts(Box<[MethodCounts]>);

impl RouteCounts {
    fn new(path: &'static str, routes: &[Route]) -> Self {
        let of = |method: &'static str| {
            let route = routes.iter().find(|route| {
                route.path == path && (route.method == method || method == "HEAD" && route.answers_head())
            });
            let class = route.map_or(NO_CLASS, |route| if route.class.is_empty() { NO_CLASS } else { route.class });
            let counts = MethodCounts::new(path, method, class);
            if let Some(route) = route.filter(|route| route.method == method) {
                for status in [route.status].into_iter().chain(WATCHED) {
                    counts.code(status).increment(0);
                }
                counts.seconds();
            }
            counts
        };
        Self(METHODS.map(of).into())
    }

    fn counts_for(&self, method: &Method) -> &MethodCounts {
        let index = METHODS.iter().position(|known| method == *known).unwrap_or(METHODS.len() - 1);
        &self.0[index]
    }
}

pub(crate) struct RequestMetrics {
    routes: matchit::Router<RouteCounts>,
    console: RouteCounts,
    docs: RouteCounts,
    unknown: RouteCounts,
}

impl RequestMetrics {
    pub(crate) fn new(routes: &[Route]) -> Self {
        declare();
        thesis_streams::metrics::declare();
        begin_refused(SERVER, &["calls", "openings", "bodies"]);
        let mut router = matchit::Router::new();
        for route in routes {
            // The first route of a path registers the others too.
            let _known = router.insert(route.path, RouteCounts::new(route.path, routes));
        }
        for path in [home::PATH, home::EVENTS_PATH, receipt_page::PATH, status_page::PATH, design::PATH, mcp::PATH] {
            let _other = router.insert(path, RouteCounts::new(path, routes));
        }
        let of = |path| RouteCounts::new(path, routes);
        let (console, docs, unknown) = (of(console::HOME), of(docs::HOME), of(UNKNOWN));
        Self { routes: router, console, docs, unknown }
    }

    /// Counts a request as in progress.
    pub(crate) fn begin(&self, method: &Method, path: &str) -> CountedRequest<'_> {
        let route = if console::covers(path) {
            &self.console
        } else if docs::covers(path) {
            &self.docs
        } else {
            self.routes.at(path).map_or(&self.unknown, |found| found.value)
        };
        let (counts, _in_progress) = (route.counts_for(method), InProgress::begin(IN_PROGRESS.one()));
        CountedRequest { counts, began: Instant::now(), status: GIVEN_UP, _in_progress }
    }
}

/// A request in progress. Its drop counts it: as given up unless `answered` was called.
pub(crate) struct CountedRequest<'a> {
    counts: &'a MethodCounts,
    began: Instant,
    status: u16,
    _in_progress: InProgress,
}

impl CountedRequest<'_> {
    /// The request's method and the template of its route.
    pub(crate) fn name(&self) -> (&'static str, &'static str) {
        (self.counts.method, self.counts.route)
    }

    /// Records the status and the duration of the response.
    pub(crate) fn answered(mut self, status: StatusCode) {
        self.status = status.as_u16();
        let seconds = self.began.elapsed().as_secs_f64();
        self.counts.seconds().record(seconds);
        self.counts.latency.record(seconds);
    }
}

impl Drop for CountedRequest<'_> {
    fn drop(&mut self) {
        self.counts.code(self.status).increment(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_given_up_counts_as_such() {
        let requests = RequestMetrics::new(&[]);
        let codes = || -> Vec<u16> {
            requests.unknown.counts_for(&Method::GET).codes.read().iter().map(|(code, _)| *code).collect()
        };
        requests.begin(&Method::GET, "/nowhere").answered(StatusCode::NOT_FOUND);
        assert_eq!(codes(), [404]);
        drop(requests.begin(&Method::GET, "/nowhere"));
        assert_eq!(codes(), [404, 499]);
    }
}
