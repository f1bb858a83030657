//! The one error of the service boundary: a part for the caller, and a part that only an operator may read.
//!
//! The operator's part is logged once, with the request id, where the error becomes a status.

use thesis_proto::error::{ApiError, ErrorCode};

use crate::store::StoreError;

/// A failed operation.
#[derive(Debug, thiserror::Error)]
#[error("{api}{}", why.as_deref().map(|why| format!(" ({why})")).unwrap_or_default())]
pub struct Error {
    /// For the caller.
    pub api: Box<ApiError>,
    /// For the operator.
    pub why: Option<String>,
}

/// Result of an operation.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// Returns an error without a part for the operator.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        ApiError::new(code, message).into()
    }

    /// The error for a list cursor that belongs to another list.
    #[must_use]
    pub fn invalid_cursor() -> Self {
        let text = "this cursor was not made by this service for this list and these filters; \
                    take the last page's next_cursor, or leave it out";
        ApiError::new(ErrorCode::InvalidCursor, text).with_param("cursor").into()
    }

    /// The error of a replica that cannot check which keys are still valid.
    #[must_use]
    pub fn outdated() -> Self {
        let why = "the control log could not be followed lately".to_owned();
        Self { api: Box::new(ApiError::unavailable()), why: Some(why) }
    }

    /// The error for a change that is based on an older state.
    #[must_use]
    pub fn changed_concurrently() -> Self {
        Self::new(ErrorCode::ChangedMeanwhile, "somebody changed this meanwhile; look at it again, then change it")
    }

    /// The error while the store answers no calls.
    #[must_use]
    pub fn store_away() -> Self {
        StoreError::Unavailable("nothing was answered lately".to_owned()).into()
    }

    /// The error for a failed call of the store. A retry may succeed.
    #[must_use]
    pub fn unavailable(error: &StoreError) -> Self {
        Self { api: Box::new(ApiError::unavailable()), why: Some(error.to_string()) }
    }

    /// The error of a dataset that accepts no other writes before its import has ended.
    #[must_use]
    pub fn importing() -> Self {
        let text = "a copy of another dataset is being imported here; try again when it has come to its end";
        ApiError::new(ErrorCode::ServiceUnavailable, text).with_retry_after(1).into()
    }

    /// An internal failure of this service.
    pub fn internal(why: impl std::fmt::Display) -> Self {
        Self { api: Box::new(ApiError::internal()), why: Some(why.to_string()) }
    }
}

impl From<ApiError> for Error {
    fn from(api: ApiError) -> Self {
        Self { api: Box::new(api), why: None }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        let api = match error {
            StoreError::Unavailable(_) | StoreError::InDoubt(_) => ApiError::unavailable(),
            StoreError::Damaged(_) | StoreError::Unknown(_) => ApiError::internal(),
        };
        Self { api: Box::new(api), why: Some(error.to_string()) }
    }
}
