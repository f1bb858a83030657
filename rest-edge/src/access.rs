//! The record of each request: a line in the access log, and a span if its trace is sampled.

use http::{HeaderMap, HeaderValue, Response};
use thesis_net::{
    clock::{IdSource, SharedClock, random},
    trace::{self, STORED, Span, SpanKind, Trace},
};
use thesis_proto::error::ErrorCode;
use tracing::Level;

use crate::context::{ID_BYTES, id_of};

/// The target of the access log. It is off unless `SVC_LOG` names it.
const TARGET: &str = "access";
/// Logged when the client gives a request up. It is never sent.
pub(crate) const GIVEN_UP: u16 = 499;

/// A request in progress. Its drop writes the log line: as given up unless `end` was called.
pub(crate) struct AccessRecord<'a> {
    pub(crate) id: HeaderValue,
    pub(crate) trace: Trace,
    pub(crate) started_ms: i64,
    method: &'static str,
    route: &'static str,
    clock: &'a SharedClock,
    span: Option<Span>,
    status: u16,
    code: Option<&'static str>,
}

impl<'a> AccessRecord<'a> {
    /// Starts the record of a request, which the span names by method and route.
    pub(crate) fn begin(
        headers: &HeaderMap,
        (method, route): (&'static str, &'static str),
        ids: &dyn IdSource,
        clock: &'a SharedClock,
    ) -> Self {
        // One call gives the randomness of the request id and of the trace.
        let random: [u8; ID_BYTES + STORED] = random(ids);
        let (for_id, for_trace) = (random.first_chunk(), random.last_chunk());
        let id = id_of(for_id.expect("it has more"));
        let new = || Trace::random(*for_trace.expect("it has more"));
        let started_ms = clock.now_ms();
        let (trace, continues) = trace::enter(headers, new, started_ms);
        let mut span = Span::enter(&trace, continues, SpanKind::Server);
        let trace = span.as_ref().map_or(trace, Span::trace);
        if let Some(span) = &mut span {
            span.name(format!("{method} {route}"));
            span.set("http.request.method", method);
            span.set("http.route", route);
            span.set("thesis.request_id", id.to_str().unwrap_or_default().to_owned());
        }
        Self { id, trace, started_ms, method, route, clock, span, status: GIVEN_UP, code: None }
    }

    /// Records the status and the error code of the response.
    pub(crate) fn end<B>(mut self, response: &Response<B>) {
        self.status = response.status().as_u16();
        self.code = response.extensions().get::<ErrorCode>().map(|code| code.as_str());
    }
}

impl Drop for AccessRecord<'_> {
    fn drop(&mut self) {
        let Self { trace, method, route, status, code, .. } = *self;
        if tracing::enabled!(target: TARGET, Level::DEBUG) {
            let (id, took_ms) = (self.id.to_str().unwrap_or_default(), self.clock.now_ms() - self.started_ms);
            tracing::debug!(
                target: TARGET, request_id = id, trace_id = %trace, method, route, status, code, took_ms, "request"
            );
        }
        let Some(span) = &mut self.span else { return };
        span.set("http.response.status_code", i64::from(status));
        if let Some(code) = code {
            span.set("error.type", code);
        }
        if status >= 500 {
            span.fail(code.unwrap_or_default());
        }
    }
}
