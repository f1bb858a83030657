"""The errors that this package raises."""

from ._error_classes import (
    AuthenticationError,
    ConflictError,
    InternalError,
    InvalidRequestError,
    NotFoundError,
    PermissionDeniedError,
    RateLimitError,
    UpstreamError,
    ValidationError,
)
from ._errors import ApiConnectionError, ApiError, ApiTimeoutError, TradeThesisError, UnexpectedResponseError

__all__ = [
    "ApiConnectionError",
    "ApiError",
    "ApiTimeoutError",
    "AuthenticationError",
    "ConflictError",
    "InternalError",
    "InvalidRequestError",
    "NotFoundError",
    "PermissionDeniedError",
    "RateLimitError",
    "TradeThesisError",
    "UnexpectedResponseError",
    "UpstreamError",
    "ValidationError",
]
