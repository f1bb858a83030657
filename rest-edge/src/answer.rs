//! The answer to a request: JSON, an event stream, or a failure that becomes the error envelope in one place.

use std::{convert::Infallible, sync::LazyLock};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER},
};
use http_body_util::{BodyExt as _, Either, Full, combinators::UnsyncBoxBody};
use serde::Serialize;
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    json::{Error, ErrorEnvelope},
    metadata, v1,
};
use tonic::{Status, metadata::MetadataMap};

/// A whole body, or one that streams.
pub(crate) type Body = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

/// A handler's result.
pub(crate) type Answer = Result<Response<Body>, Failure>;

/// The header with the request's id.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static(metadata::REQUEST_ID);

static ANSWER_HEADERS: LazyLock<[HeaderName; metadata::ANSWER_HEADERS.len()]> =
    LazyLock::new(|| metadata::ANSWER_HEADERS.map(HeaderName::from_static));

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Why a request failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Decided: the error and the headers that go with it.
    Told(Box<ApiError>, Box<HeaderMap>),
    /// The request cannot become a typed one; core decides whether the caller may learn that.
    Shape(Box<v1::RequestError>),
}

impl Failure {
    /// A request with bad fields.
    pub(crate) fn fields(errors: Vec<FieldError>) -> Self {
        let errors =
            errors.into_iter().map(|error| v1::FieldError { param: error.param, message: error.message }).collect();
        let code = ErrorCode::ValidationFailed.as_str().to_owned();
        Self::Shape(Box::new(v1::RequestError { code, message: String::new(), errors }))
    }

    /// A request of the wrong form as a whole.
    pub(crate) fn shape(code: ErrorCode, message: &str) -> Self {
        let (code, message) = (code.as_str().to_owned(), message.to_owned());
        Self::Shape(Box::new(v1::RequestError { code, message, errors: Vec::new() }))
    }

    /// Core's answer lacks a part that it must hold.
    pub(crate) fn incomplete() -> Self {
        ApiError::internal().into()
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Told(Box::new(error), Box::default())
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let mut headers = HeaderMap::new();
        copy_headers(status.metadata(), &mut headers);
        Self::Told(Box::new(ApiError::from_status(&status)), Box::new(headers))
    }
}

/// A 405 that names the methods that the path allows.
pub(crate) fn method_not_allowed(allow: &HeaderValue) -> Failure {
    let error = ApiError::new(ErrorCode::MethodNotAllowed, "this path does not answer that method");
    let headers = HeaderMap::from_iter([(ALLOW, allow.clone())]);
    Failure::Told(Box::new(error), Box::new(headers))
}

/// Copies the headers that core sends beside its answer.
pub(crate) fn copy_headers(from: &MetadataMap, to: &mut HeaderMap) {
    let from: &HeaderMap = from.as_ref();
    for name in &*ANSWER_HEADERS {
        if let Some(value) = from.get(name) {
            to.insert(name.clone(), value.clone());
        }
    }
}

/// Core's answer as JSON.
pub(crate) fn json<T: Serialize>(status: StatusCode, told: &MetadataMap, body: &T) -> Answer {
    // A page of a list takes some more, a single resource less.
    let mut text = Vec::with_capacity(4096);
    serde_json::to_writer(&mut text, body).map_err(|_| Failure::incomplete())?;
    let mut response = bytes(status, text.into());
    copy_headers(told, response.headers_mut());
    Ok(response)
}

/// An answer of finished JSON.
pub(crate) fn bytes(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut headers = HeaderMap::with_capacity(20);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CONTENT_LENGTH, body.len().into());
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The bytes of a whole body, taken out of it.
pub(crate) async fn whole(body: &mut Full<Bytes>) -> Bytes {
    match body.frame().await {
        Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        None => Bytes::new(),
    }
}

/// A whole HTTP/1.1 answer with the envelope, for when there is no request. The connection closes after it.
pub(crate) fn raw(error: &ApiError, request_id: &str) -> Bytes {
    let body = envelope_json(error, request_id);
    let status = status_of(error);
    let retry = error.retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{retry}\
         x-service-request-id: {request_id}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat().into()
}

/// The error envelope.
pub(crate) fn envelope(error: &ApiError, headers: &HeaderMap, request_id: &str) -> Response<Body> {
    let mut response = bytes(status_of(error), envelope_json(error, request_id).into());
    response.headers_mut().extend(headers.clone());
    if let Some(seconds) = error.retry_after {
        response.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    response
}

fn envelope_json(error: &ApiError, request_id: &str) -> Vec<u8> {
    serde_json::to_vec(&ErrorEnvelope { error: Error::new(error, request_id) }).unwrap_or_default()
}

fn status_of(error: &ApiError) -> StatusCode {
    StatusCode::from_u16(error.code.http_status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
