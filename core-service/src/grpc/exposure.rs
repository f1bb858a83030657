//! The services that a listener of gRPC offers.
//!
//! The public listener has the services for API keys and takes no service token. The internal one has all services, for
//! the roles.

use super::reflection;

/// The services of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exposure {
    /// All services: the core has no other listener.
    All,
    /// The public services, for everybody. It ignores the service token.
    Public,
    /// All services, for the roles in the private network.
    Internal,
}

impl Exposure {
    /// The listener's name among servers.
    pub(super) const fn server(self) -> &'static str {
        match self {
            Self::All | Self::Public => "grpc",
            Self::Internal => "internal",
        }
    }

    /// True if the listener has a service of the contract, by its full name.
    pub(super) fn has(self, service: &str) -> bool {
        self != Self::Public || !reflection::is_internal(service)
    }
}
