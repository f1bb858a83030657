//! The guard around every call: the client's deadline, panics, and the details of errors outside operations.

use std::{net::SocketAddr, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use futures::FutureExt as _;
use http::{HeaderMap, HeaderValue};
use ipnet::IpNet;
use thesis_net::{
    client_address::client_address,
    panics,
    trace::{TRACEPARENT, Trace},
};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    metadata::{REQUEST_ID, SERVICE_TOKEN},
};
use tokio::time::{Instant, timeout};
use tonic::{Code, Status, transport::server::TcpConnectInfo};

use super::{
    answer::{error_status, with_request_id},
    deadline::with_deadline,
    exposure::Exposure,
};
use crate::service::Core;

/// The header with the client's timeout.
const TIMEOUT: &str = "grpc-timeout";
const PASSED: &str = "the deadline has passed";

/// Guards every call of a core.
#[derive(Clone)]
pub(super) struct Guard {
    core: Arc<Core>,
    exposure: Exposure,
    trusted_proxies: Arc<[IpNet]>,
}

impl Guard {
    /// Guards the calls of a core's listener. It trusts `X-Forwarded-For` from peers in `trusted_proxies`.
    pub(super) fn new(core: &Arc<Core>, exposure: Exposure, trusted_proxies: Vec<IpNet>) -> Self {
        Self { core: Arc::clone(core), exposure, trusted_proxies: trusted_proxies.into() }
    }

    /// Returns the request's id from the edge, or a new one.
    fn request_id(&self, credential: Option<&HeaderValue>, given: Option<&HeaderValue>) -> String {
        let text = |value: Option<&HeaderValue>| value?.to_str().ok().map(str::to_owned);
        let given = text(given).filter(|_| self.core.gate.is_service(text(credential).as_deref()));
        given.unwrap_or_else(|| self.core.gate.new_request_id())
    }

    /// Reads the client's address from a trusted proxy.
    fn locate(&self, request: &mut Request) {
        let peer = request.extensions().get::<TcpConnectInfo>().and_then(|info| info.remote_addr);
        let (Some(peer), false) = (peer, self.trusted_proxies.is_empty()) else { return };
        let address = client_address(peer.ip(), request.headers(), &self.trusted_proxies);
        let remote_addr = Some(SocketAddr::new(address, peer.port()));
        request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr });
    }

    /// Counts a wrong service token, and refuses an address that has sent too many. A public listener accepts no token,
    /// so nobody can guess one there, and a token gives no trust.
    fn judge_token(&self, request: &mut Request) -> Result<(), ApiError> {
        if self.exposure == Exposure::Public {
            request.headers_mut().remove(SERVICE_TOKEN);
            return Ok(());
        }
        let gate = &self.core.gate;
        match request.headers().get(SERVICE_TOKEN) {
            Some(token) if !gate.is_service(token.to_str().ok()) => {
                let peer = request.extensions().get::<TcpConnectInfo>().and_then(|info| info.remote_addr);
                gate.count_wrong_token(peer.map(|peer| peer.ip()))
            }
            _ => Ok(()),
        }
    }
}

/// Answers a call.
pub(super) async fn guard(State(guard): State<Guard>, mut request: Request, next: Next) -> Response {
    guard.locate(&mut request);
    if let Err(error) = guard.judge_token(&mut request) {
        return error_status(&error, &guard.core.gate.new_request_id()).into_http();
    }
    let headers = request.headers();
    let (credential, given) = (headers.get(SERVICE_TOKEN).cloned(), headers.get(REQUEST_ID).cloned());
    let trace = headers.get(TRACEPARENT).cloned();
    let request_id = || guard.request_id(credential.as_ref(), given.as_ref());
    let Ok(time_limit) = client_timeout(headers) else {
        let message = format!("{TIMEOUT} must be up to 8 digits and one of the units H, M, S, m, u, n");
        return error_status(&ApiError::new(ErrorCode::InvalidRequest, message), &request_id()).into_http();
    };
    let deadline = time_limit.and_then(|limit| Instant::now().checked_add(limit));
    let uri = request.uri().clone();
    let running = AssertUnwindSafe(next.run(request)).catch_unwind();
    let outcome = match time_limit {
        // The client no longer waits: even an immediate response would be too late.
        Some(limit) if limit.is_zero() => return late(PASSED, &request_id()).into_http(),
        Some(limit) => timeout(limit, running).await,
        None => Ok(running.await),
    };
    match outcome {
        Ok(Ok(response)) => {
            let response = detailed(response, request_id);
            let Some(deadline) = deadline else { return response };
            let guard = guard.clone();
            let late = move || late(PASSED, &guard.request_id(credential.as_ref(), given.as_ref()));
            response.map(|body| with_deadline(body, deadline, late))
        }
        Ok(Err(panic)) => {
            let request_id = request_id();
            let (operation, panic) = (uri.path(), panics::text(panic.as_ref()));
            let trace = trace.as_ref().and_then(|trace| Trace::parse(trace.as_bytes()));
            let trace_id = trace.map(tracing::field::display);
            tracing::error!(request_id, trace_id, operation, panic, "a call panicked");
            error_status(&ApiError::internal(), &request_id).into_http()
        }
        Err(_) => late(PASSED, &request_id()).into_http(),
    }
}

/// Parses the client's timeout, if the request has one.
fn client_timeout(headers: &HeaderMap) -> Result<Option<Duration>, ()> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let Some((unit, digits)) = value.as_bytes().split_last() else { return Err(()) };
    if digits.is_empty() || digits.len() > 8 || !digits.iter().all(u8::is_ascii_digit) {
        return Err(());
    }
    let amount = digits.iter().fold(0, |amount, digit| amount * 10 + u64::from(digit - b'0'));
    Ok(Some(match unit {
        b'H' => Duration::from_secs(amount * 3_600),
        b'M' => Duration::from_secs(amount * 60),
        b'S' => Duration::from_secs(amount),
        b'm' => Duration::from_millis(amount),
        b'u' => Duration::from_micros(amount),
        b'n' => Duration::from_nanos(amount),
        _ => return Err(()),
    }))
}

/// Builds the status of a call after its deadline.
pub(super) fn late(message: &str, request_id: &str) -> Status {
    let error = ApiError { message: message.to_owned(), ..ApiError::unavailable() };
    with_request_id(error.to_status_of(Code::DeadlineExceeded, request_id), request_id)
}

/// Adds the usual details to errors without any: errors of tonic, and of unimplemented methods.
fn detailed(response: Response, request_id: impl FnOnce() -> String) -> Response {
    let headers = response.headers();
    if !headers.contains_key(Status::GRPC_STATUS) || headers.contains_key(Status::GRPC_STATUS_DETAILS) {
        return response;
    }
    let Some(bare) = Status::from_header_map(headers).filter(|status| status.code() != Code::Ok) else {
        return response;
    };
    let request_id = request_id();
    let (code, default) = match bare.code() {
        // tonic reports an unreadable message as `Internal`. Internal failures of this service have details.
        Code::InvalidArgument | Code::Internal => {
            (ErrorCode::InvalidRequest, "the request cannot be read; send the message of the proto files")
        }
        Code::OutOfRange | Code::ResourceExhausted => {
            (ErrorCode::PayloadTooLarge, "the request is too large; send less")
        }
        Code::Unimplemented => {
            (ErrorCode::MethodNotAllowed, "there is no such method; the proto files and reflection name them all")
        }
        Code::NotFound => {
            (ErrorCode::RouteNotFound, "there is no such service; the proto files and reflection name them all")
        }
        Code::Unavailable => (ErrorCode::ServiceUnavailable, "the service cannot answer right now; try again"),
        Code::DeadlineExceeded => return late(bare.message(), &request_id).into_http(),
        _ => (ErrorCode::InternalError, "something went wrong here; the request id helps to find it"),
    };
    let message = if bare.message().is_empty() { default } else { bare.message() };
    error_status(&ApiError::new(code, message), &request_id).into_http()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_has_digits_and_a_unit() {
        let read = |text: &'static str| {
            client_timeout(&HeaderMap::from_iter([(
                http::HeaderName::from_static(TIMEOUT),
                HeaderValue::from_static(text),
            )]))
        };
        for (text, time) in [
            ("1H", Duration::from_hours(1)),
            ("2M", Duration::from_mins(2)),
            ("99999999S", Duration::from_secs(99_999_999)),
            ("30m", Duration::from_millis(30)),
            ("0u", Duration::ZERO),
            ("7n", Duration::from_nanos(7)),
        ] {
            assert_eq!(read(text), Ok(Some(time)), "{text}");
        }
        for text in ["", "S", "1", "1s", "-1S", "1.5S", "123456789S", "1 S", "S1"] {
            assert_eq!(read(text), Err(()), "{text}");
        }
        assert_eq!(client_timeout(&HeaderMap::new()), Ok(None));
    }
}
