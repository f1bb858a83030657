//! The record of each attempt: a line in the access log, and a span if its trace is sampled.

use std::borrow::Cow;

use thesis_net::trace::{self, Span, SpanKind, Trace};
use thesis_proto::v1::{ClaimResponse, attempt_report::Outcome};
use tracing::Level;

use crate::metrics::name;

/// The target of the lines, off unless `SVC_LOG` names it.
const TARGET: &str = "access";

/// An open attempt; empty if neither log nor collector records it.
pub(crate) struct TracedAttempt(Option<Box<AttemptRecord>>);

struct AttemptRecord {
    delivery: String,
    webhook: String,
    attempt: i32,
    trace: Trace,
    is_logged: bool,
    span: Option<Span>,
}

impl TracedAttempt {
    /// Begins the record of an attempt. Its trace is the one of the request that caused the event; without a request,
    /// all attempts of a delivery share one.
    pub(crate) fn begin(claim: &ClaimResponse) -> Self {
        let is_logged = tracing::enabled!(target: TARGET, Level::DEBUG);
        if !is_logged && !trace::is_exported() {
            return Self(None);
        }
        let (trace, continues) = trace::of_delivery(&claim.traceparent, &claim.delivery_id);
        let mut span = Span::enter(&trace, continues, SpanKind::Client);
        if let Some(span) = &mut span {
            span.name("POST");
            span.set("http.request.method", "POST");
            span.set("http.request.resend_count", i64::from(claim.attempt - 1));
            span.set("thesis.delivery_id", claim.delivery_id.clone());
            span.set("thesis.webhook_id", claim.webhook_id.clone());
        }
        let (delivery, webhook) = (claim.delivery_id.clone(), claim.webhook_id.clone());
        let record = AttemptRecord { delivery, webhook, attempt: claim.attempt, trace, is_logged, span };
        Self((is_logged || record.span.is_some()).then(|| Box::new(record)))
    }

    /// Records the outcome, with the kind of a failure, but without the address and the endpoint's response.
    pub(crate) fn end(self, outcome: &Outcome, kind: Option<&'static str>, took_ms: i32) {
        let Some(record) = self.0 else { return };
        let AttemptRecord { delivery, webhook, attempt, trace, is_logged, span } = *record;
        let (status, why) = match outcome {
            Outcome::Response(response) => (Some(response.status), None),
            Outcome::Failure(failure) => (None, Some(failure.reason.as_str())),
            Outcome::Released(_) => (None, None),
        };
        let outcome = name(outcome);
        if is_logged {
            tracing::debug!(
                target: TARGET, trace_id = %trace, delivery, webhook, attempt, outcome, status, why, took_ms, "attempt"
            );
        }
        let Some(mut span) = span else { return };
        if let Some(status) = status {
            span.set("http.response.status_code", i64::from(status));
        }
        if outcome != "delivered" {
            let status = || status.unwrap_or_default().to_string();
            let kind: Cow<'static, str> = kind.map_or_else(|| Cow::Owned(status()), Cow::Borrowed);
            span.set("error.type", kind.clone().into_owned());
            span.fail(kind);
        }
    }
}
