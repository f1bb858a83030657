//! Counts the calls over gRPC. A call counts under its method in the contract.

use std::{
    collections::HashMap,
    sync::{LazyLock, OnceLock},
};

use axum::{extract::Request, middleware::Next, response::Response};
use thesis_net::{
    metric::{ANY, Counter, Histogram, InProgress},
    status::{Latency, core_requests},
};
use thesis_proto::descriptors::methods;
use tokio::time::Instant;
use tonic::{Code, Status};

use crate::domain::operation::Operation;

thesis_net::declare_metrics! {
    fn declare_metrics;

    CALLS: Counter = "grpc_requests_total", &[("method", ANY), ("code", ANY)],
        "Calls over gRPC, by method and the code at the head of the answer";
    SECONDS: Histogram = "grpc_request_seconds", &[("method", ANY)],
        "Time until the head of the answer of a call over gRPC, by method";
    IN_PROGRESS: Gauge = "grpc_requests_in_progress", &[], "Calls over gRPC whose answer has not begun";
}

/// Label of calls outside the contract: health, reflection, and unknown methods.
const OTHER: &str = "other";
/// Number of status codes of gRPC.
const CODES: usize = 17;

/// The calls of one method.
struct MethodCounts {
    /// `Service/Method`.
    name: String,
    /// Counters by code. Each one starts with its first call, except that of success.
    codes: [OnceLock<Counter>; CODES],
    seconds: OnceLock<Histogram>,
    /// The latency of its rate class, if it is an operation.
    latency: Option<&'static Latency>,
}

impl MethodCounts {
    fn new(name: &str) -> Self {
        let latency = Operation::parse(name).map(|operation| core_requests(operation.class().as_str()));
        let counts = Self { name: name.to_owned(), codes: Default::default(), seconds: OnceLock::new(), latency };
        counts.code(Code::Ok).increment(0);
        counts
    }

    fn code(&self, code: Code) -> &Counter {
        self.codes[code as usize].get_or_init(|| CALLS.begin(&[&self.name, &format!("{code:?}")]))
    }

    fn seconds(&self) -> &Histogram {
        self.seconds.get_or_init(|| SECONDS.begin(&[&self.name]))
    }
}

/// The calls of all methods.
struct Methods {
    /// Methods by path.
    known: HashMap<String, MethodCounts>,
    other: MethodCounts,
}

static METHODS: LazyLock<Methods> = LazyLock::new(|| {
    let known = methods().map(|(service, method)| {
        let (name, method) = (service.rsplit('.').next().unwrap_or(&service), method.name());
        (format!("/{service}/{method}"), MethodCounts::new(&format!("{name}/{method}")))
    });
    Methods { known: known.collect(), other: MethodCounts::new(OTHER) }
});

/// Declares the metrics. Install the recorder first.
pub(super) fn declare() {
    declare_metrics();
    LazyLock::force(&METHODS);
}

/// Counts a call until its response; a call that is dropped before counts as cancelled.
struct Counting {
    method: &'static MethodCounts,
    began: Instant,
    code: Code,
    _in_progress: InProgress,
}

impl Drop for Counting {
    fn drop(&mut self) {
        self.method.code(self.code).increment(1);
        let seconds = self.began.elapsed().as_secs_f64();
        self.method.seconds().record(seconds);
        if let Some(latency) = self.method.latency.filter(|_| self.code != Code::Cancelled) {
            latency.record(seconds);
        }
    }
}

/// Answers a call, and counts it.
pub(super) async fn measure(request: Request, next: Next) -> Response {
    let method = METHODS.known.get(request.uri().path()).unwrap_or(&METHODS.other);
    let _in_progress = InProgress::begin(IN_PROGRESS.one());
    let mut counting = Counting { method, began: Instant::now(), code: Code::Cancelled, _in_progress };
    let response = next.run(request).await;
    // Headers without a status mean success.
    let status = response.headers().get(Status::GRPC_STATUS);
    counting.code = status.map_or(Code::Ok, |status| Code::from_bytes(status.as_bytes()));
    response
}
