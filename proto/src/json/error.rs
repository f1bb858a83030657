//! The error envelope.

use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;

/// Every error answer.
#[derive(Debug, Serialize, ToSchema)]
pub struct ErrorEnvelope<'a> {
    /// The error.
    pub error: Error<'a>,
}

/// The error.
#[derive(Debug, Serialize, ToSchema)]
pub struct Error<'a> {
    /// Class of the error: `invalid_request`, `authentication`, `permission`, `not_found`, `conflict`, `validation`,
    /// `rate_limit`, `upstream` or `internal`.
    pub r#type: &'a str,
    /// Machine-readable code, such as `VALIDATION_FAILED`; the answers of each operation list theirs. New codes may come.
    pub code: &'a str,
    /// The explanation for people.
    pub message: &'a str,
    /// Equals the `X-Service-Request-Id` header.
    pub request_id: &'a str,
    /// The field or parameter at fault; the first of them if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub param: Option<&'a str>,
    /// More data, depending on the code, such as `errors` (each bad field), `candidates`, `limit` or `reason`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Value)]
    pub details: Option<&'a serde_json::Value>,
    /// The page that explains the code.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String)]
    pub doc_url: Option<String>,
}

impl<'a> Error<'a> {
    /// An error in the answer to a request.
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
