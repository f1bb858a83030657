//! The error envelope in all its forms. It links to the page that explains its code.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode, header::RETRY_AFTER};
use thesis_proto::{
    error::{ApiError, ErrorCode},
    json::{Error, ErrorEnvelope},
};

use super::{Body, bytes};

/// Writes error envelopes with links to one public URL.
#[derive(Clone, Debug)]
pub(crate) struct Envelopes {
    /// The error page's URL, to which `doc_url` adds the fragment of a code.
    page: Arc<str>,
}

impl Envelopes {
    pub(crate) fn new(public_url: &str) -> Self {
        Self { page: format!("{public_url}/docs/errors").into() }
    }

    /// The URL of the paragraph that explains a code.
    pub(crate) fn doc_url(&self, code: ErrorCode) -> String {
        format!("{}#{}", self.page, code.as_str().to_ascii_lowercase())
    }

    pub(crate) fn json_error<'a>(&self, error: &'a ApiError, request_id: &'a str) -> Error<'a> {
        Error { doc_url: Some(self.doc_url(error.code)), ..Error::new(error, request_id) }
    }

    pub(crate) fn answer(&self, error: &ApiError, headers: &HeaderMap, request_id: &str) -> Response<Body> {
        let mut response = bytes(status_of(error), self.json(error, request_id).into());
        response.headers_mut().extend(headers.clone());
        if let Some(seconds) = error.retry_after {
            response.headers_mut().insert(RETRY_AFTER, seconds.into());
        }
        response
    }

    /// A complete HTTP/1.1 response for a connection without a readable request. The connection closes after it.
    pub(crate) fn raw(&self, error: &ApiError, request_id: &str) -> Bytes {
        let body = self.json(error, request_id);
        let status = status_of(error);
        let retry = error.retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
        let head = format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{retry}\
             cache-control: no-store\r\nx-content-type-options: nosniff\r\nx-service-request-id: {request_id}\r\n\
             connection: close\r\n\r\n",
            body.len()
        );
        [head.as_bytes(), &body].concat().into()
    }

    fn json(&self, error: &ApiError, request_id: &str) -> Vec<u8> {
        serde_json::to_vec(&ErrorEnvelope { error: self.json_error(error, request_id) }).unwrap_or_default()
    }
}

fn status_of(error: &ApiError) -> StatusCode {
    StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
