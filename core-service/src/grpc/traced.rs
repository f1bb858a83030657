//! Traces of public operations: a line in the access log, and a span if the trace is sampled.

use std::sync::{Arc, OnceLock};

use thesis_net::{
    clock::SharedClock,
    trace::{Span, SpanKind, Trace},
};
use thesis_proto::error::ApiError;
use tonic::{Code, Response, Status};
use tracing::Level;

use crate::{access::gate::RequestMeta, domain::operation::Operation, service::Core};

/// Log target of the lines, off unless `SVC_LOG` names it.
const TARGET: &str = "access";

/// A running operation. It is logged when it is dropped, as cancelled unless it has ended.
pub(super) struct Traced {
    operation: Operation,
    request_id: String,
    /// The id of the key, once it is known.
    key_id: OnceLock<String>,
    trace: Trace,
    clock: SharedClock,
    started_ms: i64,
    is_logged: bool,
    span: Option<Span>,
    status: Code,
    code: Option<&'static str>,
}

impl Traced {
    /// Starts to trace an operation; none if neither log nor span is enabled. Its work belongs to its span.
    pub(super) fn begin(core: &Core, operation: Operation, meta: &mut RequestMeta) -> Option<Box<Self>> {
        let is_logged = tracing::enabled!(target: TARGET, Level::DEBUG);
        let mut span = Span::enter(&meta.trace, meta.continues, SpanKind::Server);
        if span.is_none() && !is_logged {
            return None;
        }
        if let Some(span) = &mut span {
            meta.trace = span.trace();
            let (service, method) = operation.name().split_once('/').unwrap_or_default();
            span.name(operation.name());
            span.set("rpc.system", "grpc");
            span.set("rpc.service", format!("thesis.v1.{service}"));
            span.set("rpc.method", method);
            span.set("thesis.request_id", meta.request_id.clone());
        }
        let clock = Arc::clone(&core.shared.clock);
        Some(Box::new(Self {
            operation,
            request_id: meta.request_id.clone(),
            key_id: OnceLock::new(),
            trace: meta.trace,
            started_ms: clock.now_ms(),
            clock,
            is_logged,
            span,
            status: Code::Cancelled,
            code: None,
        }))
    }

    /// Trace and span of the work, if it is sampled.
    pub(super) fn sampled(&self) -> Option<Trace> {
        self.span.as_ref().map(Span::trace)
    }

    /// Notes the caller.
    pub(super) fn called_by(&self, key_id: &str) {
        // Only the first name counts.
        let _ = self.key_id.set(key_id.to_owned());
    }

    /// Notes the outcome.
    pub(super) fn end<T>(mut self, outcome: &Result<Response<T>, Status>) {
        self.status = outcome.as_ref().err().map_or(Code::Ok, Status::code);
        self.code = outcome.as_ref().err().map(|status| ApiError::from_status(status).code.as_str());
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let (route, status, code, key_id) = (self.operation.name(), self.status, self.code, self.key_id.take());
        if self.is_logged {
            let took_ms = self.clock.now_ms() - self.started_ms;
            tracing::debug!(
                target: TARGET,
                request_id = self.request_id,
                trace_id = %self.trace,
                key_id,
                method = "gRPC",
                route,
                status = status as i32,
                code,
                took_ms,
                "operation"
            );
        }
        let Some(span) = &mut self.span else { return };
        span.set("rpc.grpc.status_code", i64::from(status as i32));
        if let Some(key_id) = key_id {
            span.set("thesis.key_id", key_id);
        }
        if let Some(code) = code {
            span.set("error.type", code);
        }
        if matches!(
            status,
            Code::Unknown | Code::DeadlineExceeded | Code::Internal | Code::Unavailable | Code::DataLoss
        ) {
            span.fail(code.unwrap_or_default());
        }
    }
}
