//! HTTP clients, each bound to vetted addresses.

use std::{
    error::Error,
    io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::HeaderMap;
use quick_cache::sync::Cache;
use reqwest::{
    Client, Response,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
    retry,
};
use rustls::{ClientConfig, RootCertStore};
use thesis_net::tls::{add_authorities, client_config};
use tonic::async_trait;
use url::Host;

use crate::{error::WorkerError, failure::Failure, guard::VettedTarget};

const MAX_CLIENTS: usize = 4096;
/// Timeout of an idle connection. Common servers close theirs after 5 s, and a POST must not meet the closing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(4);

/// Sends the requests of attempts.
#[async_trait]
pub trait Transport: Send + Sync + 'static {
    /// Posts a body to a vetted target. The caller drops the call at the deadline of the attempt.
    async fn post(&self, target: VettedTarget, headers: HeaderMap, body: Bytes) -> Result<Response, Failure>;
}

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

    fn get(&self, target: &VettedTarget) -> reqwest::Result<Client> {
        let key = (target.host().clone(), target.addresses().to_vec());
        self.by_target.get_or_insert_with(&key, || self.build(target.addresses()))
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

#[async_trait]
impl Transport for Clients {
    async fn post(&self, target: VettedTarget, headers: HeaderMap, body: Bytes) -> Result<Response, Failure> {
        let client = self.get(&target).map_err(|_| Failure::Request)?;
        client.post(target.url().clone()).headers(headers).body(body).send().await.map_err(|error| why(&error))
    }
}

fn why(error: &reqwest::Error) -> Failure {
    if error.is_timeout() {
        Failure::Timeout
    } else if !error.is_connect() {
        Failure::Response
    } else if is_tls(error) {
        Failure::Tls
    } else if is_refused(error) {
        Failure::ConnectionRefused
    } else {
        Failure::Connect
    }
}

/// TLS errors travel inside I/O errors, which do not name them as their source.
fn is_tls(error: &(dyn Error + 'static)) -> bool {
    error.is::<rustls::Error>()
        || error.downcast_ref::<io::Error>().and_then(io::Error::get_ref).is_some_and(|inner| is_tls(inner))
        || error.source().is_some_and(is_tls)
}

/// True if the host answered that nothing listens at the port.
fn is_refused(error: &(dyn Error + 'static)) -> bool {
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    error.downcast_ref::<io::Error>().is_some_and(refused) || error.source().is_some_and(is_refused)
}

/// A TLS configuration that trusts the public roots, and the certificates of a PEM file.
///
/// # Errors
/// Fails when the certificates cannot be read.
pub fn tls_config(root_certificate: Option<&[u8]>) -> Result<ClientConfig, WorkerError> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(pem) = root_certificate
        && add_authorities(&mut roots, pem).map_err(WorkerError::RootCertificate)? == 0
    {
        return Err(WorkerError::RootCertificate("there is none in it".to_owned()));
    }
    Ok(client_config(roots))
}

/// Resolves every name to the vetted addresses and no others.
struct FixedResolver(Vec<SocketAddr>);

impl Resolve for FixedResolver {
    fn resolve(&self, _name: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        Box::pin(std::future::ready(Ok(addresses)))
    }
}
