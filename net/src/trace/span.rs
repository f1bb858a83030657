//! Spans: the measured steps of sampled requests, and the queue to their exporter.
//!
//! They are not those of `tracing-opentelemetry`. It draws the id of a trace when the first span begins, and a trace
//! here has its id before: the id decides about sampling, is in the log of requests that are not sampled, and of a
//! delivery it is a hash, so that all attempts share it. Its layer would also have to see each span of each request.

use std::{
    borrow::Cow,
    future::Future,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::SystemTime,
};

use futures::future::Either;
use http::HeaderMap;
use opentelemetry::{
    InstrumentationScope, KeyValue, SpanId, TraceId, Value,
    trace::{SpanContext, SpanKind, Status, TraceFlags, TraceState},
};
use opentelemetry_sdk::trace::SpanData;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::Trace;
use crate::clock::{SharedIdSource, random};

/// Maximum spans that wait to be exported; more are dropped and counted.
const MAX_WAITING: usize = 4_096;

/// The span exporter's state; empty if this process exports none.
static SPANS: OnceLock<Spans> = OnceLock::new();
/// Maximum sampled traces that callers can begin in a second.
pub(super) const MAX_FORCED: u64 = 20;
/// The traces that callers have begun in a second: the second, and their number.
static FORCED: Mutex<(i64, u64)> = Mutex::new((0, 0));

tokio::task_local! {
    /// The span in which this task works. Only sampled requests set it.
    static CURRENT: Trace;
}

struct Spans {
    queue: mpsc::Sender<SpanData>,
    dropped: AtomicU64,
    sampling: Sampling,
    ids: SharedIdSource,
}

/// The share of new traces that are sampled, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling(pub f64);

impl Sampling {
    /// True if a new trace is sampled. Its id decides, so that every role decides the same.
    pub(super) fn takes(self, trace: &Trace) -> bool {
        self.0 >= 1.0 || (trace.id as u64 as f64) < self.0 * u64::MAX as f64
    }
}

/// Starts the export of this process's spans. Returns their queue; a second call returns `None`.
#[must_use]
pub fn install(sampling: Sampling, ids: SharedIdSource) -> Option<mpsc::Receiver<SpanData>> {
    let (queue, waiting) = mpsc::channel(MAX_WAITING);
    let spans = Spans { queue, dropped: AtomicU64::new(0), sampling, ids };
    SPANS.set(spans).is_ok().then_some(waiting)
}

/// Spans dropped since the last call, because too many were waiting.
#[must_use]
pub fn take_dropped() -> u64 {
    SPANS.get().map_or(0, |spans| spans.dropped.swap(0, Relaxed))
}

/// The trace of a request from outside: the caller's, or the new one; and whether it is the caller's.
pub fn enter(headers: &HeaderMap, new: impl FnOnce() -> Trace, now_ms: i64) -> (Trace, bool) {
    match Trace::of(headers) {
        Some(trace) => (Trace { sampled: trace.sampled && may_force(&mut FORCED.lock(), now_ms), ..trace }, true),
        None => (sampled_by_share(new()), false),
    }
}

/// Counts a caller's sampled trace, if one is left in this second.
pub(super) fn may_force((second, count): &mut (i64, u64), now_ms: i64) -> bool {
    let now = now_ms.div_euclid(1_000);
    *count = if now == *second { *count + 1 } else { 1 };
    *second = now;
    *count <= MAX_FORCED
}

/// The trace of a delivery: its event's, or its own; and whether it is the event's.
pub fn of_delivery(traceparent: &str, delivery_id: &str) -> (Trace, bool) {
    let of_event = Trace::parse(traceparent.as_bytes()).map(|trace| (trace, true));
    of_event.unwrap_or_else(|| (sampled_by_share(Trace::of_delivery(delivery_id)), false))
}

/// True if this process exports spans.
pub fn is_exported() -> bool {
    SPANS.get().is_some()
}

fn sampled_by_share(trace: Trace) -> Trace {
    let sampled = SPANS.get().is_some_and(|spans| spans.sampling.takes(&trace));
    Trace { sampled, ..trace }
}

/// The sampled span in which this task works, if it does.
pub fn current() -> Option<Trace> {
    CURRENT.try_with(|trace| *trace).ok()
}

/// Runs work as part of a span, if it is sampled.
pub fn within<F: Future>(trace: Option<Trace>, work: F) -> impl Future<Output = F::Output> {
    // It is not `async`: such a future would hold `work` twice.
    match trace {
        Some(trace) => Either::Left(CURRENT.scope(trace, work)),
        None => Either::Right(work),
    }
}

/// A span under way. It ends when it is dropped.
#[derive(Debug)]
pub struct Span(Option<Box<SpanData>>);

impl Span {
    /// The first span here of a request: it continues `trace`, or begins it. None unless it is sampled and this process
    /// exports spans.
    #[must_use]
    pub fn enter(trace: &Trace, continues: bool, kind: SpanKind) -> Option<Self> {
        Self::open(trace, continues, true, kind, Cow::Borrowed(""))
    }

    /// A step of this task's work. None unless the work is sampled.
    #[must_use]
    pub fn step(kind: SpanKind, name: impl FnOnce() -> Cow<'static, str>) -> Option<Self> {
        Self::open(&current()?, true, false, kind, name())
    }

    fn open(trace: &Trace, continues: bool, is_remote: bool, kind: SpanKind, name: Cow<'static, str>) -> Option<Self> {
        let spans = SPANS.get().filter(|_| trace.sampled)?;
        let id = SpanId::from_bytes(random(spans.ids.as_ref()));
        let (trace_id, start) = (TraceId::from(trace.id), now());
        Some(Self(Some(Box::new(SpanData {
            span_context: SpanContext::new(trace_id, id, TraceFlags::SAMPLED, false, TraceState::NONE),
            parent_span_id: if continues { SpanId::from(trace.span) } else { SpanId::INVALID },
            parent_span_is_remote: is_remote,
            span_kind: kind,
            name,
            start_time: start,
            end_time: start,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: Default::default(),
            links: Default::default(),
            status: Status::Unset,
            instrumentation_scope: InstrumentationScope::builder("trade-thesis").build(),
        }))))
    }

    fn data(&mut self) -> &mut SpanData {
        self.0.as_mut().expect("only its drop takes it")
    }

    /// The trace of the work in this span.
    pub fn trace(&self) -> Trace {
        let context = &self.0.as_ref().expect("only its drop takes it").span_context;
        let (id, span) = (context.trace_id().to_bytes(), context.span_id().to_bytes());
        Trace { id: u128::from_be_bytes(id), span: u64::from_be_bytes(span), sampled: true }
    }

    /// Names it, never by anything that a caller chose.
    pub fn name(&mut self, name: impl Into<Cow<'static, str>>) {
        self.data().name = name.into();
    }

    /// Adds an attribute, named by OpenTelemetry's conventions or by this service.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        self.data().attributes.push(KeyValue::new(name, value));
    }

    /// Marks it as failed.
    pub fn fail(&mut self, reason: impl Into<Cow<'static, str>>) {
        self.data().status = Status::error(reason);
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some((mut span, spans)) = self.0.take().zip(SPANS.get()) else { return };
        span.end_time = now();
        if spans.queue.try_send(*span).is_err() {
            spans.dropped.fetch_add(1, Relaxed);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "spans need microseconds, and nothing is decided by them")]
fn now() -> SystemTime {
    SystemTime::now()
}
