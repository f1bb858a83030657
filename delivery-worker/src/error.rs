//! Errors of a worker's start.

/// The reason why a worker cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The root certificate cannot be read.
    #[error("the root certificate is not a PEM certificate: {0}")]
    RootCertificate(String),
    /// The resolver could not be set up.
    #[error("DNS: {0}")]
    Resolver(#[from] thesis_net::resolve::ResolverError),
}
