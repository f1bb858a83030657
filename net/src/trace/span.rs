//! Spans: the measured steps of sampled requests, and the queue to their exporter.

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
use tokio::sync::mpsc;

use super::{SpanId, Trace, cap::Cap};
use crate::clock::SharedIdSource;

/// Maximum spans that wait to be exported; more are dropped and counted.
const MAX_WAITING: usize = 4_096;

/// The span exporter's state; empty if this process exports none.
static SPANS: OnceLock<Spans> = OnceLock::new();
/// The traces that callers have forced on this process.
static FORCED: Cap = Cap::new();

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

/// The share of new traces that are sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampling(u64);

impl Sampling {
    /// A share from 0 to 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "saturates"
    )]
    pub fn of(share: f64) -> Self {
        Self((share * u64::MAX as f64) as u64)
    }

    /// True if a new trace is sampled. Its id decides, so that every role decides the same.
    pub(super) fn takes(self, trace: &Trace) -> bool {
        let number = u64::from_be_bytes(*trace.id.last_chunk().expect("8 of 16"));
        self.0 == u64::MAX || number < self.0
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
        Some(trace) => (Trace { sampled: trace.sampled && FORCED.take(now_ms), ..trace }, true),
        None => (sampled_by_share(new()), false),
    }
}

/// The trace of a delivery: its event's, or its own; and whether it is the event's.
#[must_use]
pub fn of_delivery(traceparent: &str, delivery_id: &str) -> (Trace, bool) {
    let of_event = Trace::parse(traceparent.as_bytes()).map(|trace| (trace, true));
    of_event.unwrap_or_else(|| (sampled_by_share(Trace::of_delivery(delivery_id)), false))
}

/// True if this process exports spans.
#[must_use]
pub fn is_exported() -> bool {
    SPANS.get().is_some()
}

fn sampled_by_share(trace: Trace) -> Trace {
    let sampled = SPANS.get().is_some_and(|spans| spans.sampling.takes(&trace));
    Trace { sampled, ..trace }
}

/// The sampled span in which this task works, if it does.
#[must_use]
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

/// The role of a span towards its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Answers a request.
    Server,
    /// Makes a request.
    Client,
    /// A step within a process.
    Internal,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A text.
    Text(Cow<'static, str>),
    /// A number.
    Int(i64),
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

/// A span that ended.
#[derive(Clone, Debug)]
pub struct SpanData {
    /// Its trace and its own id.
    pub trace: Trace,
    /// Its parent; none for the first one of a trace.
    pub parent: Option<SpanId>,
    /// True if the parent belongs to another process.
    pub is_remote: bool,
    /// Its role towards the parent.
    pub kind: Kind,
    /// Its name: never anything that a caller chose.
    pub name: Cow<'static, str>,
    /// Start time.
    pub start: SystemTime,
    /// End time.
    pub end: SystemTime,
    /// Facts about it, by the names of OpenTelemetry's conventions or of this service.
    pub attributes: Vec<(&'static str, Value)>,
    /// The reason of a failure.
    pub error: Option<Cow<'static, str>>,
}

/// A span under way. It ends when it is dropped.
#[derive(Debug)]
pub struct Span(Option<Box<SpanData>>);

impl Span {
    /// The first span here of a request: it continues `trace`, or begins it. None unless it is sampled and this process
    /// exports spans.
    #[must_use]
    pub fn enter(trace: &Trace, continues: bool, kind: Kind) -> Option<Self> {
        Self::open(trace, continues, true, kind, Cow::Borrowed(""))
    }

    /// A step of this task's work. None unless the work is sampled.
    #[must_use]
    pub fn step(kind: Kind, name: impl FnOnce() -> Cow<'static, str>) -> Option<Self> {
        Self::open(&current()?, true, false, kind, name())
    }

    fn open(trace: &Trace, continues: bool, is_remote: bool, kind: Kind, name: Cow<'static, str>) -> Option<Self> {
        let spans = SPANS.get().filter(|_| trace.sampled)?;
        let mut trace = *trace;
        let parent = continues.then_some(trace.span);
        spans.ids.fill(&mut trace.span);
        let (start, attributes) = (now(), Vec::new());
        let (end, error) = (start, None);
        Some(Self(Some(Box::new(SpanData { trace, parent, is_remote, kind, name, start, end, attributes, error }))))
    }

    /// The trace of the work in this span.
    #[must_use]
    pub fn trace(&self) -> Trace {
        self.0.as_ref().map(|span| span.trace).unwrap_or_default()
    }

    /// Names it.
    pub fn name(&mut self, name: impl Into<Cow<'static, str>>) {
        if let Some(span) = &mut self.0 {
            span.name = name.into();
        }
    }

    /// Adds an attribute.
    pub fn set(&mut self, name: &'static str, value: impl Into<Value>) {
        if let Some(span) = &mut self.0 {
            span.attributes.push((name, value.into()));
        }
    }

    /// Marks it as failed.
    pub fn fail(&mut self, why: impl Into<Cow<'static, str>>) {
        if let Some(span) = &mut self.0 {
            span.error = Some(why.into());
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        let Some((mut span, spans)) = self.0.take().zip(SPANS.get()) else { return };
        span.end = now();
        if spans.queue.try_send(*span).is_err() {
            spans.dropped.fetch_add(1, Relaxed);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "spans need microseconds, and nothing is decided by them")]
fn now() -> SystemTime {
    SystemTime::now()
}
