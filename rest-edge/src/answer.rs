//! The response to a request: JSON, an event stream, or a failure. One place turns failures into the error envelope.

mod envelope;

use std::{convert::Infallible, sync::LazyLock};

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderName, HeaderValue, Response, StatusCode,
    header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, LOCATION, X_CONTENT_TYPE_OPTIONS},
};
use http_body_util::{BodyExt as _, Either, Full, combinators::UnsyncBoxBody};
use serde::Serialize;
use serde_json::value::RawValue;
use thesis_proto::{
    error::{ApiError, ErrorCode, FieldError},
    json::{List, RenderedRows},
    metadata, v1,
};
use tonic::{Status, metadata::MetadataMap};

pub(crate) use self::envelope::Envelopes;

/// A complete body on the left, a stream on the right.
pub(crate) type Body = Either<Full<Bytes>, UnsyncBoxBody<Bytes, Infallible>>;

pub(crate) type Answer = Result<Response<Body>, Failure>;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static(metadata::REQUEST_ID);

static ANSWER_HEADERS: LazyLock<[HeaderName; metadata::ANSWER_HEADERS.len()]> =
    LazyLock::new(|| metadata::ANSWER_HEADERS.map(HeaderName::from_static));

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// Browsers must not guess another media type from the body.
pub(crate) const NO_SNIFF: HeaderValue = HeaderValue::from_static("nosniff");

pub(crate) const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// Size in bytes of a list without its rows; a cursor has at most 512.
const ENVELOPE_BYTES: usize = 640;

/// The failure of a request.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The error that the client gets, with the headers that belong to it.
    Error(Box<ApiError>, Box<HeaderMap>),
    /// The request has the wrong form. Core decides whether the caller may learn that.
    Shape(Box<v1::RequestError>),
}

impl Failure {
    pub(crate) fn fields(errors: Vec<FieldError>) -> Self {
        let errors =
            errors.into_iter().map(|error| v1::FieldError { param: error.param, message: error.message }).collect();
        let code = ErrorCode::ValidationFailed.as_str().to_owned();
        Self::Shape(Box::new(v1::RequestError { code, message: String::new(), errors }))
    }

    pub(crate) fn shape(code: ErrorCode, message: &str) -> Self {
        let (code, message) = (code.as_str().to_owned(), message.to_owned());
        Self::Shape(Box::new(v1::RequestError { code, message, errors: Vec::new() }))
    }

    /// Core's response lacks a required part.
    pub(crate) fn incomplete() -> Self {
        ApiError::internal().into()
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Error(Box::new(error), Box::default())
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        let mut headers = HeaderMap::new();
        copy_headers(status.metadata(), &mut headers);
        Self::Error(Box::new(ApiError::from_status(&status)), Box::new(headers))
    }
}

/// A 405 that names the methods that the path allows.
pub(crate) fn method_not_allowed(allow: &HeaderValue) -> Failure {
    let answered = allow.to_str().unwrap_or_default();
    let text = format!("this path does not answer that method; send one of {answered}");
    let error = ApiError::new(ErrorCode::MethodNotAllowed, text);
    let headers = HeaderMap::from_iter([(ALLOW, allow.clone())]);
    Failure::Error(Box::new(error), Box::new(headers))
}

/// Copies the headers that core sends with its response.
pub(crate) fn copy_headers(from: &MetadataMap, to: &mut HeaderMap) {
    let from: &HeaderMap = from.as_ref();
    for name in &*ANSWER_HEADERS {
        if let Some(value) = from.get(name) {
            to.insert(name.clone(), value.clone());
        }
    }
}

/// Adds the headers that protect every response of the API. A `Cache-Control` that the response already has stays.
pub(crate) fn protect_answer(headers: &mut HeaderMap) {
    headers.insert(X_CONTENT_TYPE_OPTIONS, NO_SNIFF);
    headers.entry(CACHE_CONTROL).or_insert(NO_STORE);
}

/// Writes core's response as JSON.
pub(crate) fn json<T: Serialize>(status: StatusCode, metadata: &MetadataMap, body: &T) -> Answer {
    // A page of a list needs more than this, a single resource less.
    json_of_size(4096, status, metadata, body)
}

/// Writes a page of a list: the rows that core in this process has rendered, or else the page's messages.
pub(crate) fn list_page<T: Serialize>(
    metadata: &MetadataMap,
    extensions: &Extensions,
    (next_cursor, has_more): (Option<&str>, bool),
    messages: impl FnOnce() -> T,
) -> Answer {
    let Some(RenderedRows(rows)) = extensions.get::<RenderedRows>() else {
        // The message has no rows. Without the rendered ones the page would be wrong, and look empty.
        if metadata.contains_key(metadata::RENDERED) {
            return Err(Failure::incomplete());
        }
        return json(StatusCode::OK, metadata, &messages());
    };
    let rows: Vec<&RawValue> = rows.iter().map(|row| &**row).collect();
    let size = ENVELOPE_BYTES + rows.iter().map(|row| row.get().len() + 1).sum::<usize>();
    json_of_size(size, StatusCode::OK, metadata, &List::new(rows, next_cursor, has_more))
}

fn json_of_size<T: Serialize>(size: usize, status: StatusCode, metadata: &MetadataMap, body: &T) -> Answer {
    let mut text = Vec::with_capacity(size);
    serde_json::to_writer(&mut text, body).map_err(|_| Failure::incomplete())?;
    let mut response = bytes(status, text.into());
    copy_headers(metadata, response.headers_mut());
    Ok(response)
}

/// A response whose JSON is already written.
pub(crate) fn bytes(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut headers = HeaderMap::with_capacity(20);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(CONTENT_LENGTH, body.len().into());
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

pub(crate) fn redirect(status: StatusCode, location: HeaderValue) -> Response<Body> {
    let mut response = bytes(status, Bytes::new());
    response.headers_mut().remove(CONTENT_TYPE);
    response.headers_mut().insert(LOCATION, location);
    response
}

/// Takes the bytes out of a complete body.
pub(crate) async fn take_bytes(body: &mut Full<Bytes>) -> Bytes {
    match body.frame().await {
        Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
        None => Bytes::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_without_its_rendered_rows_is_an_error() {
        let page = |metadata: &MetadataMap, extensions: &Extensions| {
            list_page(metadata, extensions, (None, false), || "messages")
        };
        let (mut metadata, mut extensions) = (MetadataMap::new(), Extensions::new());
        assert_eq!(page(&metadata, &extensions).unwrap().status(), StatusCode::OK);
        metadata.insert(metadata::RENDERED, "true".parse().unwrap());
        let Err(Failure::Error(error, _)) = page(&metadata, &extensions) else { panic!("an empty page") };
        assert_eq!(error.code.http_status(), 500);
        extensions.insert(RenderedRows(Vec::new()));
        assert_eq!(page(&metadata, &extensions).unwrap().status(), StatusCode::OK);
    }
}
