//! Errors of calls.

use std::{fmt, num::IntErrorKind, time::Duration};

use reqwest::header::{HeaderMap, RETRY_AFTER};
use serde::Deserialize;
use serde_json::Value;

use crate::generated::{
    errors::{ErrorCode, ErrorType},
    types::ErrorDetails,
};

/// The error of another library that caused this one.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A call failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The service refused the request.
    #[error(transparent)]
    Api(Box<ApiError>),
    /// The connection failed or broke before the whole response came.
    #[error("no response: {0}")]
    Connection(#[source] BoxError),
    /// No response arrived within the timeout, or a stream was silent for too long.
    #[error("no response in time")]
    Timeout,
    /// The response has a form that this version does not know.
    #[error("the response has another form: {0}")]
    Form(#[source] BoxError),
    /// The call cannot be sent.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// The refusal by the service, if it is one.
    #[must_use]
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Self::Api(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The code of the refusal. Decide by it.
    #[must_use]
    pub fn code(&self) -> Option<&ErrorCode> {
        self.api()?.code.as_ref()
    }

    /// The id of the refused request. Log it, and name it in requests for help.
    #[must_use]
    pub fn request_id(&self) -> Option<&str> {
        self.api()?.request_id.as_deref()
    }
}

/// A refusal by the service.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ApiError {
    /// The HTTP status.
    pub status: u16,
    /// The group of the code.
    pub r#type: Option<ErrorType>,
    /// The error code. None if a proxy responded in place of the service.
    pub code: Option<ErrorCode>,
    /// A sentence for people. Its wording may change.
    pub message: String,
    /// The id of the request.
    pub request_id: Option<String>,
    /// The wrong parameter or field.
    pub param: Option<String>,
    /// More data for programs.
    pub details: Option<ErrorDetails>,
    /// The address of the documentation of the code.
    pub doc_url: Option<String>,
    /// The time to wait before the next try.
    pub retry_after: Option<Duration>,
}

#[derive(Deserialize)]
struct Envelope {
    error: ErrorBody,
}

#[derive(Deserialize)]
struct ErrorBody {
    r#type: ErrorType,
    code: ErrorCode,
    message: String,
    request_id: String,
    param: Option<String>,
    details: Option<Value>,
    doc_url: Option<String>,
}

impl ApiError {
    /// Reads the error of a response.
    pub(crate) fn read(status: u16, headers: &HeaderMap, body: &[u8]) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let retry_after = text(RETRY_AFTER.as_str()).and_then(whole_seconds).map(Duration::from_secs);
        let request_id = text("x-service-request-id").map(str::to_owned);
        let Ok(Envelope { error }) = serde_json::from_slice(body) else {
            let message = "the response is not one of the service".to_owned();
            let (r#type, code, param, details, doc_url) = (None, None, None, None, None);
            return Self { status, r#type, code, message, request_id, param, details, doc_url, retry_after };
        };
        Self {
            status,
            r#type: Some(error.r#type),
            code: Some(error.code),
            message: error.message,
            request_id: Some(error.request_id),
            param: error.param,
            // A later version of the service may send details in another form, which must not hide the error.
            details: error.details.and_then(|details| serde_json::from_value(details).ok()),
            doc_url: error.doc_url,
            retry_after,
        }
    }
}

/// Reads a number of seconds. One of more than 64 bits is very long too.
fn whole_seconds(text: &str) -> Option<u64> {
    match text.parse::<u64>() {
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Some(u64::MAX),
        seconds => seconds.ok(),
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.code {
            Some(code) => write!(formatter, "{code}: {}", self.message)?,
            None => write!(formatter, "status {}: {}", self.status, self.message)?,
        }
        match &self.request_id {
            Some(id) => write!(formatter, " ({id})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ApiError {}
