//! The stream of events, over the public API.

use std::time::Duration;

use reqwest::{
    Client, Response, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, RETRY_AFTER},
};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use thesis_net::causes::with_causes;
use thesis_proto::error::ErrorCode;
use tokio::time::timeout;
use url::Url;

/// Timeout for the head of a response, and for the body of an error.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of an error's body; a longer one counts as none.
const MAX_ERROR_BYTES: usize = 64 * 1024;
/// Maximum wait that the service may request.
const MAX_SECONDS: u64 = 3_600;

pub(super) struct Api {
    http: Client,
    url: Url,
    key: SecretString,
    /// Address of the API.
    pub(super) base: String,
}

pub(super) enum NotOpen {
    /// It will not be.
    Refused(String),
    /// The replay is complete.
    Complete,
    /// It may be after a wait.
    Later {
        why: String,
        /// The shortest wait.
        wait: Duration,
    },
}

impl NotOpen {
    fn later(why: impl Into<String>) -> Self {
        Self::Later { why: why.into(), wait: Duration::ZERO }
    }
}

impl Api {
    /// The stream of a key, with these parameters of its query.
    pub(super) fn new(
        http: Client,
        base: &str,
        key: SecretString,
        query: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<Self, url::ParseError> {
        let mut url = Url::parse(&format!("{base}/v1/events/stream"))?;
        for (name, value) in query {
            url.query_pairs_mut().append_pair(name, &value);
        }
        Ok(Self { http, url, key, base: base.to_owned() })
    }

    /// Opens the stream after a cursor, or at its end.
    pub(super) async fn open(&self, cursor: Option<&str>) -> Result<Response, NotOpen> {
        let key = self.key.expose_secret().trim();
        let mut request = self.http.get(self.url.clone()).bearer_auth(key).header(ACCEPT, "text/event-stream");
        if let Some(cursor) = cursor {
            request = request.header("last-event-id", cursor);
        }
        let response = match timeout(RESPONSE_TIMEOUT, request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) if error.is_builder() => return Err(NotOpen::Refused(whole(error))),
            Ok(Err(error)) => return Err(NotOpen::later(format!("{}: {}", self.base, whole(error)))),
            Err(_) => return Err(NotOpen::later(format!("{} does not answer", self.base))),
        };
        if response.status() == StatusCode::NO_CONTENT {
            return Err(NotOpen::Complete);
        }
        if response.status() != StatusCode::OK {
            return Err(refused(response).await);
        }
        let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            Ok(response)
        } else {
            Err(NotOpen::Refused(format!("{} answers with no stream of events", self.url)))
        }
    }
}

async fn refused(response: Response) -> NotOpen {
    let (status, wait) = (response.status(), retry_after(response.headers()));
    let body = timeout(RESPONSE_TIMEOUT, error_body(response)).await.ok().flatten().unwrap_or_default();
    let error: Value = serde_json::from_slice(&body).unwrap_or_default();
    let text = |name: &str| error["error"][name].as_str().unwrap_or_default();
    let code = text("code");
    let why = if code.is_empty() {
        format!("the service answers {status}")
    } else {
        format!("{code}: {} ({})", text("message"), text("request_id"))
    };
    // A month's quota does not come back soon.
    let passes = match status {
        StatusCode::TOO_MANY_REQUESTS => code != ErrorCode::QuotaExceeded.as_str(),
        StatusCode::REQUEST_TIMEOUT => true,
        _ => status.is_server_error(),
    };
    if passes { NotOpen::Later { why, wait } } else { NotOpen::Refused(why) }
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
pub(super) fn whole(error: reqwest::Error) -> String {
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

    /// The outcome of an error with a body of these pieces, and the number of pieces that were read.
    async fn refused_with(piece: &'static [u8], pieces: usize) -> (NotOpen, usize) {
        let read = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&read);
        let body = stream::iter((0..pieces).map(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(piece)
        }));
        let response = http::Response::builder().status(503).body(Body::wrap_stream(body)).unwrap();
        (refused(response.into()).await, read.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn the_body_of_an_error_is_read_up_to_its_limit() {
        let body = br#"{"error":{"code":"SERVICE_UNAVAILABLE","message":"try again","request_id":"req_1"}}"#;
        let (outcome, _) = refused_with(body, 1).await;
        assert!(matches!(outcome, NotOpen::Later { why, .. } if why == "SERVICE_UNAVAILABLE: try again (req_1)"));
        let (outcome, read) = refused_with(&[b' '; 1_024], 1_000).await;
        assert!(matches!(outcome, NotOpen::Later { why, .. } if why == "the service answers 503 Service Unavailable"));
        assert!(read <= MAX_ERROR_BYTES / 1_024 + 2, "{read}");
    }
}
