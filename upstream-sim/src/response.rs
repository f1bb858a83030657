//! Responses in JSON, refusals, and the parts of requests.

use axum::{
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::time;

/// A request that is not fulfilled.
#[derive(Debug)]
pub(crate) struct Refused {
    status: StatusCode,
    message: String,
}

/// The result of a handler.
pub(crate) type HandlerResult = Result<Response, Refused>;

impl Refused {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The request cannot be understood.
    pub(crate) fn wrong(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// There is no such thing.
    pub(crate) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is none")
    }

    /// The world does not allow it.
    pub(crate) fn conflict(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, message)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.status, rendered(bytes_of(&json!({ "error": self.message })))).into_response()
    }
}

/// The JSON of a value.
pub(crate) fn bytes_of(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("the world's objects always serialise")
}

/// A response of rendered JSON.
pub(crate) fn rendered(body: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// A response in JSON.
pub(crate) fn json_of(value: &impl Serialize) -> Response {
    rendered(bytes_of(value))
}

/// Reads a body; an empty one is an object without fields.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    let body: &[u8] = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| Refused::wrong(error.to_string()))
}

/// Reads a time.
pub(crate) fn read_time(text: &str) -> Result<i64, Refused> {
    time::parse(text).ok_or_else(|| Refused::wrong(format!("`{text}` is not a time")))
}

/// Reads a number of a query string, from 1 to `max`.
pub(crate) fn read_limit(text: Option<&str>, default: usize, max: usize) -> Result<usize, Refused> {
    let Some(text) = text else { return Ok(default) };
    let limit = text.parse::<usize>().ok().filter(|limit| (1..=max).contains(limit));
    limit.ok_or_else(|| Refused::wrong(format!("limit is from 1 to {max}")))
}

/// Reads a field that may be absent, null or given.
pub(crate) fn given<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
