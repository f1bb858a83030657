//! The reasons for which the edge closes a WebSocket.

use thesis_proto::error::ErrorCode;
use thesis_streams::EndReason;
use tungstenite::{
    Error, Utf8Bytes,
    error::ProtocolError,
    protocol::{CloseFrame, frame::coding::CloseCode},
};

/// The reason for which the edge closes a socket. Each has a close code.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Closing {
    ShuttingDown,
    TooSlow,
    NoPong,
    Revoked,
    NoObject,
    NoText,
    /// The client sent a frame that RFC 6455 forbids.
    BadFrame(ProtocolError),
    NoAuth,
    MissingScope,
    StreamLimit,
    Replaced,
    Binary,
    TooBig,
    TryLater,
}

impl Closing {
    /// The close frame for the client.
    pub(super) fn frame(&self) -> CloseFrame {
        let (code, reason): (u16, _) = match self {
            Self::ShuttingDown => (4001, "shutting down"),
            Self::TooSlow => (4008, "too slow"),
            Self::NoPong => (4012, "no pong"),
            Self::Revoked => (4500, "bad, revoked or expired key"),
            Self::NoObject => (4501, "not a JSON object, or not auth first"),
            Self::NoText => (1007, "not UTF-8"),
            Self::BadFrame(error) => {
                return CloseFrame { code: CloseCode::Protocol, reason: error.to_string().into() };
            }
            Self::NoAuth => (4502, "no auth in time"),
            Self::MissingScope => (4503, "missing scope"),
            Self::StreamLimit => (4504, "stream limit reached"),
            Self::Replaced => (4505, "replaced by its ticket's new connection"),
            Self::Binary => (1003, "text only"),
            Self::TooBig => (1009, "64 KiB at most"),
            Self::TryLater => (1013, "try again later"),
        };
        CloseFrame { code: code.into(), reason: Utf8Bytes::from_static(reason) }
    }

    /// The reason label of metrics, if the edge and not core ends the stream.
    pub(super) const fn metric_reason(&self) -> Option<&'static str> {
        match self {
            Self::TooSlow => Some("too_slow"),
            Self::NoPong => Some("no_pong"),
            Self::NoObject | Self::NoText | Self::BadFrame(_) | Self::Binary | Self::TooBig => Some("protocol"),
            _ => None,
        }
    }

    /// The reason for a read error; none if the client closed the socket or disconnected.
    pub(super) fn of_error(error: Error) -> Option<Self> {
        match error {
            Error::Capacity(_) => Some(Self::TooBig),
            Error::Utf8(_) => Some(Self::NoText),
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
            Error::Protocol(error) => Some(Self::BadFrame(error)),
            _ => None,
        }
    }

    /// The reason for a failed authentication.
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

impl From<EndReason> for Closing {
    fn from(end: EndReason) -> Self {
        match end {
            EndReason::Revoked => Self::Revoked,
            EndReason::Reconnect => Self::ShuttingDown,
            EndReason::Replaced => Self::Replaced,
        }
    }
}
