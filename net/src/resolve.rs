//! DNS lookups: core makes one when a webhook is set, the worker before each attempt.

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

/// An error of a lookup, or of the resolver's creation.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ResolverError(#[from] NetError);

impl ResolverError {
    /// True if a name server responded that the name has no address.
    pub fn is_answer(&self) -> bool {
        self.0.is_no_records_found()
    }
}

/// A resolver without a cache: each address is judged whenever it is used.
#[derive(Clone)]
pub struct Resolver(TokioResolver);

impl Resolver {
    /// A resolver over the given name servers, or over the system's when there are none.
    ///
    /// # Errors
    /// Fails when the system's configuration cannot be read.
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
    /// Fails when there are none, or no name server responds in time.
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
