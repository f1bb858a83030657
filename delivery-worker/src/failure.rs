//! Failures of an attempt without a response.

use thesis_net::guard::Refusal;

/// The reason why there is no response, in a text for the customer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("timeout")]
    Timeout,
    #[error("dns failed")]
    Dns,
    #[error("address refused: {0}")]
    Refused(Refusal),
    #[error("connection failed")]
    Connect,
    #[error("tls failed")]
    Tls,
    #[error("no valid response")]
    Response,
    #[error("request not sendable")]
    Request,
}

impl Failure {
    /// Its name in metrics.
    pub(crate) const fn kind(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Dns => "dns",
            Self::Refused(_) => "address_refused",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Response => "response",
            Self::Request => "request",
        }
    }
}
