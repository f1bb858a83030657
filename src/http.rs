//! Requests to the public API, and the reasons for a missing response.

use std::time::Duration;

use delivery_worker::tls_config;
use reqwest::{
    Client, ClientBuilder, RequestBuilder, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap, RETRY_AFTER},
    redirect::Policy,
    retry,
};
use serde_json::Value;
use thesis_net::causes::with_causes;
use thesis_proto::error::ErrorCode;
use tokio::time::timeout;

use crate::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for the head of a response, and for a body.
pub(crate) const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of an error's body; a longer one counts as none.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Maximum wait that the service may request.
const MAX_SECONDS: u64 = 3_600;

/// The reason why a request did not succeed.
pub(crate) enum Unanswered {
    /// The request will never succeed.
    Refused(String),
    /// The request may succeed after a wait.
    Later {
        why: String,
        /// Minimum wait; zero unless the service requests one.
        wait: Duration,
    },
}

impl Unanswered {
    fn later(why: impl Into<String>) -> Self {
        Self::Later { why: why.into(), wait: Duration::ZERO }
    }
}

/// A client that trusts this root certificate in addition to the public ones.
pub(crate) fn client(root_certificate: Option<&[u8]>) -> Result<ClientBuilder, Failure> {
    Ok(Client::builder()
        .user_agent(concat!("trade-thesis/", env!("CARGO_PKG_VERSION")))
        .tls_backend_preconfigured(tls_config(root_certificate)?)
        .redirect(Policy::none())
        .retry(retry::never())
        .referer(false)
        .connect_timeout(CONNECT_TIMEOUT)
        .http1_only())
}

/// Sends a request to the API at this address, and waits for the head of the response.
pub(crate) async fn send(request: RequestBuilder, base: &str) -> Result<Response, Unanswered> {
    let response = match timeout(RESPONSE_TIMEOUT, request.send()).await {
        Ok(Ok(response)) => response,
        Ok(Err(error)) if error.is_builder() => return Err(Unanswered::Refused(whole(error))),
        Ok(Err(error)) => return Err(Unanswered::later(format!("{base}: {}", whole(error)))),
        Err(_) => return Err(Unanswered::later(format!("{base} does not answer"))),
    };
    if response.status().is_success() { Ok(response) } else { Err(refused(response, base).await) }
}

/// True if a response has the form of the API's.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()?.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}

/// The reason when another service than the API responds.
pub(crate) fn other_service(base: &str, status: StatusCode) -> String {
    // A load balancer also responds so in front of the API, or without one.
    if status.is_server_error() || matches!(status.as_u16(), 408 | 413 | 429 | 431) {
        return format!("{base} answers {status}");
    }
    format!("{base} answers {status}, and not as the API does; check the address")
}

async fn refused(response: Response, base: &str) -> Unanswered {
    let (status, wait) = (response.status(), retry_after(response.headers()));
    let body = timeout(RESPONSE_TIMEOUT, error_body(response)).await.ok().flatten().unwrap_or_default();
    let error: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |name: &str| error["error"][name].as_str().unwrap_or_default();
    let code = text("code");
    let why = if code.is_empty() {
        other_service(base, status)
    } else {
        format!("{code}: {} ({})", text("message"), text("request_id"))
    };
    // A month's quota does not come back soon.
    let passes = match status {
        StatusCode::TOO_MANY_REQUESTS => code != ErrorCode::QuotaExceeded.as_str(),
        StatusCode::REQUEST_TIMEOUT => true,
        _ => status.is_server_error(),
    };
    if passes { Unanswered::Later { why, wait } } else { Unanswered::Refused(why) }
}

async fn error_body(mut response: Response) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.ok()? {
        if body.len() + piece.len() > MAX_ERROR_BYTES {
            return None;
        }
        body.extend_from_slice(&piece);
    }
    Some(body)
}

fn retry_after(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    Duration::from_secs(seconds.unwrap_or_default().min(MAX_SECONDS))
}

/// An error with its causes, without the address.
pub(crate) fn whole(error: reqwest::Error) -> String {
    with_causes(&error.without_url())
}

#[cfg(test)]
mod tests {
    use std::{
        convert::Infallible,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
    };

    use axum::http;
    use futures::stream;
    use reqwest::Body;

    use super::*;

    #[test]
    fn a_content_type_may_have_parameters() {
        for (kind, expected) in [
            ("application/json", true),
            ("Application/JSON ; charset=utf-8", true),
            ("text/html; charset=utf-8", false),
            ("application/jsonl", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, http::HeaderValue::from_static(kind))]);
            assert_eq!(is_json(&headers), expected, "{kind}");
        }
    }

    #[tokio::test]
    async fn a_status_of_a_proxy_is_reported_as_it_is() {
        for (status, is_of_proxy) in
            [(408_u16, true), (413, true), (429, true), (431, true), (404, false), (302, false)]
        {
            let response = http::Response::builder().status(status).body("a page").unwrap();
            let (Unanswered::Refused(why) | Unanswered::Later { why, .. }) = refused(response.into(), "http://a").await;
            assert!(why.starts_with(&format!("http://a answers {status}")), "{why}");
            assert_ne!(why.contains("check the address"), is_of_proxy, "{why}");
        }
    }

    /// The outcome of an error with a body of these pieces, and the number of pieces that were read.
    async fn refused_with(piece: &'static [u8], pieces: usize) -> (Unanswered, usize) {
        let read = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&read);
        let body = stream::iter((0..pieces).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(piece)
        }));
        let response = http::Response::builder().status(503).body(Body::wrap_stream(body)).unwrap();
        (refused(response.into(), "http://a").await, read.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn the_body_of_an_error_is_read_up_to_its_limit() {
        let body = br#"{"error":{"code":"SERVICE_UNAVAILABLE","message":"try again","request_id":"req_1"}}"#;
        let (outcome, _) = refused_with(body, 1).await;
        assert!(matches!(outcome, Unanswered::Later { why, .. } if why == "SERVICE_UNAVAILABLE: try again (req_1)"));
        let (outcome, read) = refused_with(&[b' '; 1_024], 1_000).await;
        assert!(matches!(outcome, Unanswered::Later { why, .. } if why == "http://a answers 503 Service Unavailable"));
        assert!(read <= MAX_ERROR_BYTES / 1_024 + 2, "{read}");
    }
}
