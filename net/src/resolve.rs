//! DNS: core asks when a webhook is set, the worker before each attempt.

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolverConfig},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::Name,
};

/// Why a name has no addresses, or no resolver could be made.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ResolverError(#[from] NetError);

impl ResolverError {
    /// Whether a name server answered that it knows no such address.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.0.is_no_records_found()
    }
}

/// Asks name servers each time, without a cache: an address is judged whenever it is used.
#[derive(Clone)]
pub struct Resolver(TokioResolver);

impl Resolver {
    /// Asks the given name servers, or the system's when there are none.
    ///
    /// # Errors
    /// When the system's configuration cannot be read.
    pub fn new(servers: &[SocketAddr]) -> Result<Self, ResolverError> {
        let mut builder = if servers.is_empty() {
            TokioResolver::builder_tokio()?
        } else {
            let servers = servers.iter().copied().map(name_server).collect();
            let config = ResolverConfig::from_parts(None, Vec::new(), servers);
            TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        };
        let options = builder.options_mut();
        options.cache_size = 0;
        // A lost packet must leave time for the delivery attempt.
        options.timeout = Duration::from_secs(1);
        Ok(Self(builder.build()?))
    }

    /// All addresses of a name, sorted, each once.
    ///
    /// # Errors
    /// When there are none, or no name server answers in time.
    pub async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, ResolverError> {
        let mut name = Name::from_utf8(name).map_err(NetError::from)?;
        // The machine's search domains must not complete the name.
        name.set_fqdn(true);
        let mut addresses: Vec<_> = self.0.lookup_ip(name).await?.iter().collect();
        addresses.sort_unstable();
        addresses.dedup();
        Ok(addresses)
    }
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}
