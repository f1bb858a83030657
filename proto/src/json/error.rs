//! The error envelope.

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;

/// Every error answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorEnvelope<'a> {
    /// What went wrong.
    pub error: Error<'a>,
}

/// What went wrong.
#[derive(Debug, Serialize, ToSchema)]
pub struct Error<'a> {
    /// Class of the error, such as `invalid_request`.
    pub r#type: &'a str,
    /// Machine-readable code.
    pub code: &'a str,
    /// For people.
    pub message: &'a str,
    /// Equals the `X-Service-Request-Id` header.
    pub request_id: &'a str,
    /// The field at fault.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub param: Option<&'a str>,
    /// More, depending on the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub details: Option<&'a serde_json::Value>,
    /// Where the code is explained.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub doc_url: Option<&'a str>,
}

impl<'a> Error<'a> {
    /// An error as it is told for a request.
    #[must_use]
    pub fn new(error: &'a ApiError, request_id: &'a str) -> Self {
        Self {
            r#type: error.code.error_type(),
            code: error.code.as_str(),
            message: &error.message,
            request_id,
            param: error.param.as_deref(),
            details: error.details.as_deref(),
            doc_url: None,
        }
    }
}
