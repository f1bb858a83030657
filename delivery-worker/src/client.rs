//! HTTP clients, each bound to vetted addresses.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use quick_cache::sync::Cache;
use reqwest::{
    Client,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
    retry,
};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use thesis_net::tls::add_roots;
use url::Host;

use crate::{error::WorkerError, guard::VettedTarget};

const MAX_CLIENTS: usize = 4096;
/// Timeout of an idle connection. Common servers close theirs after 5 s, and a POST must not meet the closing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// One client, with its own connections, for each host with the exact set of its addresses. So an attempt never uses a
/// connection to an address that was not judged for this attempt.
pub(crate) struct Clients {
    tls: ClientConfig,
    connect_timeout: Duration,
    by_target: Cache<(Host, Vec<IpAddr>), Client>,
}

impl Clients {
    /// Clients that trust the public roots and the given ones.
    pub(crate) fn new(root_certificate: Option<&[u8]>, connect_timeout: Duration) -> Result<Self, WorkerError> {
        Ok(Self { tls: tls_config(root_certificate)?, connect_timeout, by_target: Cache::new(MAX_CLIENTS) })
    }

    pub(crate) fn get(&self, target: &VettedTarget) -> reqwest::Result<Client> {
        let key = (target.host.clone(), target.addresses.clone());
        self.by_target.get_or_insert_with(&key, || self.build(&target.addresses))
    }

    fn build(&self, addresses: &[IpAddr]) -> reqwest::Result<Client> {
        // Port 0 means the port of the URL.
        let addresses = addresses.iter().map(|&address| SocketAddr::new(address, 0)).collect();
        Client::builder()
            .tls_backend_preconfigured(self.tls.clone())
            .dns_resolver(Arc::new(FixedResolver(addresses)))
            .redirect(Policy::none())
            .retry(retry::never())
            .referer(false)
            .no_proxy()
            .http1_only()
            // An attempt that gets another's connection leaves its own unfinished, and only this timeout ends it.
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(IDLE_TIMEOUT)
            .build()
    }
}

/// A TLS configuration that trusts the public roots, and the certificates of a PEM file.
///
/// # Errors
/// Fails when the certificates cannot be read.
pub fn tls_config(root_certificate: Option<&[u8]>) -> Result<ClientConfig, WorkerError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = root_certificate {
        let added = add_roots(&mut roots, pem).map_err(WorkerError::RootCertificate)?;
        if added == 0 {
            return Err(WorkerError::RootCertificate("there is none in it".to_owned()));
        }
    }
    Ok(ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth())
}

/// Resolves every name to the vetted addresses and no others.
struct FixedResolver(Vec<SocketAddr>);

impl Resolve for FixedResolver {
    fn resolve(&self, _name: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}
