//! The one table of error codes, and the error: over gRPC a `Status` with details, over REST the envelope.
//!
//! # Recipe: an error code
//!
//! 1. A row of the table here.
//! 2. `rest-edge/errors.toml`: its texts, for the guide and for the API's description. A code that only the console or
//!    operators get has no `reason`, `message` and `example`, and is one of `others` in
//!    `rest-edge/src/tests/description/examples.rs`.
//! 3. `UPDATE_GUIDES=1 cargo test -p rest-edge guide` writes `docs/guides/errors.md`. The same test without the
//!    variable fails while the guide differs.
//! 4. Routes that can fail with it name it in `fails`. New details have a schema in `rest-edge/src/openapi/details.json`.
//!
//! Tests: what refuses, in `tests/system`; `tests/system/examples/errors.rs` compares the example with a real response.

mod bounded;

use std::{collections::HashMap, time::Duration};

use serde_json::{Map, Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::metadata::SERVICE_TOKEN;

/// The `domain` of every `google.rpc.ErrorInfo` that this service sends.
pub const ERROR_DOMAIN: &str = "trade-thesis";
/// The list of bad fields in `error.details`.
const ERRORS: &str = "errors";

macro_rules! error_codes {
    ($($variant:ident $name:literal $http:literal $kind:literal $grpc:ident;)+) => {
        /// Machine-readable error codes; each row of the table gives HTTP status, `error.type` and gRPC code.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode {
            $(#[doc = concat!("`", $name, "`, HTTP ", $http, ".")] $variant,)+
        }

        impl ErrorCode {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            const fn row(self) -> (&'static str, u16, &'static str, Code) {
                match self {
                    $(Self::$variant => ($name, $http, $kind, Code::$grpc),)+
                }
            }
        }
    };
}

error_codes! {
    InvalidRequest "INVALID_REQUEST" 400 "invalid_request" InvalidArgument;
    InvalidCursor "INVALID_CURSOR" 400 "invalid_request" InvalidArgument;
    MissingApiKey "MISSING_API_KEY" 401 "authentication" Unauthenticated;
    InvalidApiKey "INVALID_API_KEY" 401 "authentication" Unauthenticated;
    ApiKeyRevoked "API_KEY_REVOKED" 401 "authentication" Unauthenticated;
    ApiKeyExpired "API_KEY_EXPIRED" 401 "authentication" Unauthenticated;
    SignInRequired "SIGN_IN_REQUIRED" 401 "authentication" Unauthenticated;
    SignInFailed "SIGN_IN_FAILED" 401 "authentication" Unauthenticated;
    InsufficientScope "INSUFFICIENT_SCOPE" 403 "permission" PermissionDenied;
    AddressNotAllowed "ADDRESS_NOT_ALLOWED" 403 "permission" PermissionDenied;
    LiveAccessNotApproved "LIVE_ACCESS_NOT_APPROVED" 403 "permission" PermissionDenied;
    ProjectArchived "PROJECT_ARCHIVED" 403 "permission" PermissionDenied;
    HistoryLimit "HISTORY_LIMIT" 403 "permission" PermissionDenied;
    WebhookLimitReached "WEBHOOK_LIMIT_REACHED" 403 "permission" PermissionDenied;
    AlertLimitReached "ALERT_LIMIT_REACHED" 403 "permission" PermissionDenied;
    InsufficientRole "INSUFFICIENT_ROLE" 403 "permission" PermissionDenied;
    AccountLimitReached "ACCOUNT_LIMIT_REACHED" 403 "permission" PermissionDenied;
    SignUpClosed "SIGN_UP_CLOSED" 403 "permission" PermissionDenied;
    EmailNotConfirmed "EMAIL_NOT_CONFIRMED" 403 "permission" PermissionDenied;
    ConfirmationRequired "CONFIRMATION_REQUIRED" 403 "permission" PermissionDenied;
    SecondFactorRequired "SECOND_FACTOR_REQUIRED" 403 "permission" PermissionDenied;
    TestKeyRequired "TEST_KEY_REQUIRED" 403 "permission" PermissionDenied;
    FeatureDisabled "FEATURE_DISABLED" 404 "not_found" NotFound;
    ProfileNotFound "PROFILE_NOT_FOUND" 404 "not_found" NotFound;
    ThesisNotFound "THESIS_NOT_FOUND" 404 "not_found" NotFound;
    TokenNotFound "TOKEN_NOT_FOUND" 404 "not_found" NotFound;
    EventNotFound "EVENT_NOT_FOUND" 404 "not_found" NotFound;
    WebhookNotFound "WEBHOOK_NOT_FOUND" 404 "not_found" NotFound;
    AlertNotFound "ALERT_NOT_FOUND" 404 "not_found" NotFound;
    DeliveryNotFound "DELIVERY_NOT_FOUND" 404 "not_found" NotFound;
    ArchiveFileNotFound "ARCHIVE_FILE_NOT_FOUND" 404 "not_found" NotFound;
    RouteNotFound "ROUTE_NOT_FOUND" 404 "not_found" NotFound;
    OrganizationNotFound "ORGANIZATION_NOT_FOUND" 404 "not_found" NotFound;
    ProjectNotFound "PROJECT_NOT_FOUND" 404 "not_found" NotFound;
    KeyNotFound "KEY_NOT_FOUND" 404 "not_found" NotFound;
    UserNotFound "USER_NOT_FOUND" 404 "not_found" NotFound;
    MemberNotFound "MEMBER_NOT_FOUND" 404 "not_found" NotFound;
    InvitationNotFound "INVITATION_NOT_FOUND" 404 "not_found" NotFound;
    SessionNotFound "SESSION_NOT_FOUND" 404 "not_found" NotFound;
    LinkNotFound "LINK_NOT_FOUND" 404 "not_found" NotFound;
    MethodNotAllowed "METHOD_NOT_ALLOWED" 405 "invalid_request" Unimplemented;
    AmbiguousToken "AMBIGUOUS_TOKEN" 409 "conflict" FailedPrecondition;
    IdempotencyInProgress "IDEMPOTENCY_IN_PROGRESS" 409 "conflict" Aborted;
    DeliveryInProgress "DELIVERY_IN_PROGRESS" 409 "conflict" Aborted;
    EmailTaken "EMAIL_TAKEN" 409 "conflict" FailedPrecondition;
    ChangedMeanwhile "CHANGED_MEANWHILE" 409 "conflict" FailedPrecondition;
    LastOwner "LAST_OWNER" 409 "conflict" FailedPrecondition;
    LastAdministrator "LAST_ADMINISTRATOR" 409 "conflict" FailedPrecondition;
    BackupInProgress "BACKUP_IN_PROGRESS" 409 "conflict" Aborted;
    BackupUnsupported "BACKUP_UNSUPPORTED" 409 "conflict" FailedPrecondition;
    ReceiptUnavailable "RECEIPT_UNAVAILABLE" 409 "conflict" FailedPrecondition;
    PayloadTooLarge "PAYLOAD_TOO_LARGE" 413 "invalid_request" InvalidArgument;
    RangeNotSatisfiable "RANGE_NOT_SATISFIABLE" 416 "invalid_request" OutOfRange;
    ValidationFailed "VALIDATION_FAILED" 422 "validation" InvalidArgument;
    IdempotencyKeyReused "IDEMPOTENCY_KEY_REUSED" 422 "validation" InvalidArgument;
    WebhookUrlForbidden "WEBHOOK_URL_FORBIDDEN" 422 "validation" InvalidArgument;
    RateLimited "RATE_LIMITED" 429 "rate_limit" ResourceExhausted;
    QuotaExceeded "QUOTA_EXCEEDED" 429 "rate_limit" ResourceExhausted;
    StreamLimitReached "STREAM_LIMIT_REACHED" 429 "rate_limit" ResourceExhausted;
    InternalError "INTERNAL_ERROR" 500 "internal" Internal;
    UpstreamUnavailable "UPSTREAM_UNAVAILABLE" 503 "upstream" Unavailable;
    ServiceUnavailable "SERVICE_UNAVAILABLE" 503 "internal" Unavailable;
}

impl ErrorCode {
    /// The code's text, as in `error.code`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.row().0
    }

    /// The HTTP status.
    #[must_use]
    pub const fn http_status(self) -> u16 {
        self.row().1
    }

    /// The text of `error.type`.
    #[must_use]
    pub const fn error_type(self) -> &'static str {
        self.row().2
    }

    /// The gRPC code.
    #[must_use]
    pub const fn grpc_code(self) -> Code {
        self.row().3
    }

    /// Reads a code's text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == text)
    }
}

/// One bad field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    /// The field or parameter.
    pub param: String,
    /// The rule that it breaks.
    pub message: String,
}

impl FieldError {
    /// A bad field and the rule it breaks.
    pub fn new(param: impl Into<String>, message: impl Into<String>) -> Self {
        Self { param: param.into(), message: message.into() }
    }
}

/// The error that a caller gets. Nothing in it may be an operator's secret.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}: {message}", code.as_str())]
pub struct ApiError {
    /// The row of the table.
    pub code: ErrorCode,
    /// The message for people.
    pub message: String,
    /// The field concerned.
    pub param: Option<String>,
    /// Details for programs.
    pub details: Option<Box<Value>>,
    /// Seconds to wait before the next try.
    pub retry_after: Option<u32>,
}

impl ApiError {
    /// An error of a code with a message for people.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), param: None, details: None, retry_after: None }
    }

    /// Names the field concerned.
    #[must_use]
    pub fn with_param(mut self, param: impl Into<String>) -> Self {
        self.param = Some(param.into());
        self
    }

    /// Adds details for programs.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// Sets the seconds to wait.
    #[must_use]
    pub fn with_retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// A request with bad fields: `code`, the first field as `param` and all of them in `details.errors`.
    #[must_use]
    pub fn fields(code: ErrorCode, message: Option<String>, errors: &[FieldError]) -> Self {
        let first = errors.first();
        let message = message
            .filter(|message| !message.is_empty())
            .or_else(|| first.map(|error| format!("{}: {}", error.param, error.message)))
            .unwrap_or_else(|| "the request is not valid".to_owned());
        let mut error = Self::new(code, message);
        if let Some(first) = first {
            error.param = Some(first.param.clone());
            let list: Vec<_> =
                errors.iter().map(|error| json!({"param": error.param, "message": error.message})).collect();
            error.details = Some(Box::new(json!({ ERRORS: list })));
        }
        error
    }

    /// `VALIDATION_FAILED` for these fields.
    #[must_use]
    pub fn validation(errors: &[FieldError]) -> Self {
        Self::fields(ErrorCode::ValidationFailed, None, errors)
    }

    /// The bad fields that it lists.
    pub fn field_errors(&self) -> impl Iterator<Item = FieldError> {
        let listed = self.details.as_ref().and_then(|details| details[ERRORS].as_array());
        let text = |error: &Value, name: &str| error[name].as_str().unwrap_or_default().to_owned();
        listed.into_iter().flatten().map(move |error| FieldError::new(text(error, "param"), text(error, "message")))
    }

    /// `INTERNAL_ERROR`, without a cause.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(ErrorCode::InternalError, "something went wrong here; the request id helps to find it")
    }

    /// `SERVICE_UNAVAILABLE`: the store or core cannot be reached, or is full.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::new(ErrorCode::ServiceUnavailable, "the service cannot answer right now; try again").with_retry_after(1)
    }

    /// The gRPC form: `ErrorInfo`, and `BadRequest`, `RetryInfo` and `RequestInfo` where they apply. Lists and texts
    /// that do not fit into the header of a response are cut.
    #[must_use]
    pub fn to_status(&self, request_id: &str) -> Status {
        self.to_status_of(self.code.grpc_code(), request_id)
    }

    /// The gRPC form with a gRPC code other than the table's.
    #[must_use]
    pub fn to_status_of(&self, code: Code, request_id: &str) -> Status {
        bounded::bounded(self, |error| error.whole_status(code, request_id))
    }

    fn whole_status(&self, code: Code, request_id: &str) -> Status {
        let mut metadata = HashMap::new();
        if let Some(param) = &self.param {
            metadata.insert("param".to_owned(), param.clone());
        }
        // The bad fields travel as `BadRequest`, once.
        let mut details = self.details.as_deref().cloned();
        if let Some(Value::Object(details)) = &mut details {
            details.remove(ERRORS);
        }
        if let Some(details) = details.filter(|details| *details != Value::Object(Map::new())) {
            metadata.insert("details".to_owned(), details.to_string());
        }
        let mut rich = ErrorDetails::new();
        rich.set_error_info(self.code.as_str(), ERROR_DOMAIN, metadata);
        for error in self.field_errors() {
            rich.add_bad_request_violation(error.param, error.message);
        }
        if let Some(seconds) = self.retry_after {
            rich.set_retry_info(Some(Duration::from_secs(seconds.into())));
        }
        if !request_id.is_empty() {
            rich.set_request_info(request_id, "");
        }
        Status::with_error_details(code, self.message.clone(), rich)
    }

    /// Reads a status back. A status without this service's `ErrorInfo` comes from the transport: an unreachable or
    /// overloaded core is `SERVICE_UNAVAILABLE`, anything else `INTERNAL_ERROR`.
    #[must_use]
    pub fn from_status(status: &Status) -> Self {
        let rich = status.get_error_details();
        // An error about the service token is the operator's, not the caller's.
        let is_ours = |param: Option<&String>| param.is_some_and(|param| param == SERVICE_TOKEN);
        let info = rich.error_info();
        let info = info.filter(|info| info.domain == ERROR_DOMAIN && !is_ours(info.metadata.get("param")));
        let Some((info, code)) = info.and_then(|info| Some((info, ErrorCode::parse(&info.reason)?))) else {
            return match status.code() {
                Code::Unavailable | Code::DeadlineExceeded | Code::ResourceExhausted | Code::Cancelled => {
                    Self::unavailable()
                }
                _ => Self::internal(),
            };
        };
        let mut details: Option<Value> = info.metadata.get("details").and_then(|text| serde_json::from_str(text).ok());
        let violations = rich.bad_request().map(|bad| bad.field_violations.iter()).into_iter().flatten();
        let errors: Vec<_> = violations.map(|bad| json!({"param": bad.field, "message": bad.description})).collect();
        if !errors.is_empty() {
            details.get_or_insert_with(|| json!({}))[ERRORS] = errors.into();
        }
        let seconds = rich.retry_info().and_then(|retry| retry.retry_delay).map(|delay| delay.as_secs());
        Self {
            code,
            message: status.message().to_owned(),
            param: info.metadata.get("param").cloned(),
            details: details.map(Box::new),
            retry_after: seconds.and_then(|seconds| u32::try_from(seconds).ok()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_travels_over_grpc_unchanged() {
        for code in ErrorCode::ALL {
            let error = ApiError::fields(*code, Some("why".to_owned()), &[FieldError::new("limit", "1 to 100")])
                .with_retry_after(7);
            let status = error.to_status("req_1");
            assert_eq!(status.code(), code.grpc_code());
            assert_eq!(ApiError::from_status(&status), error);
        }
    }

    #[test]
    fn transport_failures_become_unavailable_or_internal() {
        let unavailable = ApiError::from_status(&Status::unavailable("connection refused"));
        assert_eq!(unavailable.code, ErrorCode::ServiceUnavailable);
        assert_eq!(ApiError::from_status(&Status::unknown("?")).code, ErrorCode::InternalError);
    }

    #[test]
    fn codes_are_unique_and_types_follow_statuses() {
        for (index, code) in ErrorCode::ALL.iter().enumerate() {
            assert_eq!(ErrorCode::parse(code.as_str()), Some(*code));
            assert_eq!(ErrorCode::ALL.iter().position(|other| other.as_str() == code.as_str()), Some(index));
        }
    }
}
