//! Why this side closes a WebSocket.

use thesis_proto::error::ErrorCode;
use thesis_streams::End;

/// Why this side closes a socket, with the code that tells the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    ShuttingDown,
    TooSlow,
    NoPong,
    Revoked,
    NoObject,
    NoText,
    NoAuth,
    MissingScope,
    StreamLimit,
    Replaced,
    Binary,
    TooBig,
    TryLater,
}

impl Closing {
    pub(super) fn code(self) -> (u16, &'static str) {
        match self {
            Self::ShuttingDown => (4001, "shutting down"),
            Self::TooSlow => (4008, "too slow"),
            Self::NoPong => (4012, "no pong"),
            Self::Revoked => (4500, "bad, revoked or expired key"),
            Self::NoObject => (4501, "not a JSON object, or not auth first"),
            Self::NoText => (1007, "not UTF-8"),
            Self::NoAuth => (4502, "no auth in time"),
            Self::MissingScope => (4503, "missing scope"),
            Self::StreamLimit => (4504, "stream limit reached"),
            Self::Replaced => (4505, "replaced by its ticket's new connection"),
            Self::Binary => (1003, "text only"),
            Self::TooBig => (1009, "64 KiB at most"),
            Self::TryLater => (1013, "try again later"),
        }
    }

    /// The closing for an authentication that failed.
    pub(super) fn of_failure(code: ErrorCode) -> Self {
        match code {
            ErrorCode::InsufficientScope => Self::MissingScope,
            ErrorCode::StreamLimitReached => Self::StreamLimit,
            ErrorCode::ServiceUnavailable
            | ErrorCode::RateLimited
            | ErrorCode::QuotaExceeded
            | ErrorCode::InternalError => Self::TryLater,
            _ => Self::Revoked,
        }
    }
}

impl From<End> for Closing {
    fn from(end: End) -> Self {
        match end {
            End::Revoked => Self::Revoked,
            End::Reconnect => Self::ShuttingDown,
            End::Replaced => Self::Replaced,
        }
    }
}
