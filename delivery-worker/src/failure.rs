//! Failures of an attempt without a response.

use thesis_net::guard::Refusal;

/// The reason why there is no response, in a text for the customer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The endpoint did not respond in time.
    #[error("timeout")]
    Timeout,
    /// The host's name leads to no address.
    #[error("dns failed")]
    Dns,
    /// A rule forbids the address.
    #[error("address refused: {0}")]
    Refused(Refusal),
    /// The host refused the connection: nothing listens at the port.
    #[error("connection refused")]
    ConnectionRefused,
    /// There was no connection.
    #[error("connection failed")]
    Connect,
    /// The endpoint did not show a valid certificate.
    #[error("tls failed")]
    Tls,
    /// The response could not be read.
    #[error("no valid response")]
    Response,
    /// The request could not be made.
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
            Self::ConnectionRefused | Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Response => "response",
            Self::Request => "request",
        }
    }
}
