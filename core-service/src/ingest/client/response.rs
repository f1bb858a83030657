//! The upstream's responses.

use bytes::{Bytes, BytesMut};
use reqwest::{
    Response, StatusCode,
    header::{HeaderMap, RETRY_AFTER},
};
use thesis_net::causes::with_causes;

/// Maximum number of bytes of a page of theses: 32 MiB.
pub(super) const MAX_PAGE: usize = 32 * 1024 * 1024;
/// Maximum number of bytes of any other response: 256 KiB.
pub(super) const MAX_OBJECT: usize = 256 * 1024;
/// Maximum number of characters of a failure's reason.
const MAX_REASON: usize = 200;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The upstream has no such object.
    #[error("not found")]
    NotFound,
    /// The upstream gave no usable response.
    #[error("{why}")]
    Failed {
        status: Option<u16>,
        /// The pause that the upstream requests, in seconds.
        retry_after_s: Option<u64>,
        /// The reason for the operator, without any part of the response body.
        why: String,
    },
}

impl LookupError {
    pub(super) const fn failed(why: String) -> Self {
        Self::Failed { status: None, retry_after_s: None, why }
    }

    /// The failure for a response with a status other than success.
    pub(super) fn from_response(response: &Response) -> Self {
        let status = response.status();
        Self::Failed {
            status: Some(status.as_u16()),
            retry_after_s: retry_after(status, response.headers()),
            why: format!("the upstream answers {status}"),
        }
    }
}

pub(super) async fn body(response: Response, max_bytes: usize) -> Result<Bytes, LookupError> {
    match response.status() {
        StatusCode::OK => whole(response, max_bytes).await.map_err(LookupError::failed),
        StatusCode::NOT_FOUND => Err(LookupError::NotFound),
        _ => Err(LookupError::from_response(&response)),
    }
}

/// Reads a whole body. A body over the limit is an error.
pub(super) async fn whole(mut response: Response, max_bytes: usize) -> Result<Bytes, String> {
    let mut body = BytesMut::new();
    while let Some(piece) = response.chunk().await.map_err(why)? {
        if body.len() + piece.len() > max_bytes {
            return Err(format!("the answer is over {} KiB", max_bytes / 1024));
        }
        body.extend_from_slice(&piece);
    }
    Ok(body.freeze())
}

/// The text of an error with its causes. It leaves out the URL, which contains ids.
pub(super) fn why(error: reqwest::Error) -> String {
    with_causes(&error.without_url()).chars().take(MAX_REASON).collect()
}

/// The `Retry-After` of a response in seconds; none for a date.
fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    let may_retry = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    headers.get(RETRY_AFTER).filter(|_| may_retry)?.to_str().ok()?.trim().parse().ok()
}
