//! Takes due webhook attempts from core, vets the address, signs, sends and reports. A worker holds no data: it can be
//! killed at any moment, and any number of workers can run.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use ipnet::IpNet;
use thesis_net::{
    clock::{SharedClock, SharedIdSource},
    services::Deliveries,
};
use tokio_util::sync::CancellationToken;

mod claim;
mod client;
mod error;
mod failure;
mod guard;
mod mask;
mod metrics;
mod report;
mod send;
mod sign;
mod traced;

pub use self::{
    client::{Transport, tls_config},
    error::WorkerError,
    failure::Failure,
    guard::VettedTarget,
    sign::{Signer, standard_key},
};

/// The settings that a worker starts with.
#[derive(Clone)]
pub struct WorkerConfig {
    /// Maximum open attempts that core counts. With late attempts there may be twice this number.
    pub capacity: usize,
    /// Timeout for DNS, connection, request and response of an attempt together.
    pub timeout: Duration,
    /// Networks to which the address rules do not apply.
    pub allow_networks: Vec<IpNet>,
    /// Certificates of a PEM file, trusted in addition to the public roots.
    pub root_certificate: Option<Vec<u8>>,
    /// Name servers in place of the system's.
    pub dns_servers: Vec<SocketAddr>,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            capacity: 1024,
            timeout: Duration::from_secs(5),
            allow_networks: Vec::new(),
            root_certificate: None,
            dns_servers: Vec::new(),
        }
    }
}

/// Takes claims from each of these cores until `shutdown`, then lets open attempts finish; returns within 8 s.
///
/// # Errors
/// Fails when the configuration cannot be used. An unreachable core is no error: the worker retries it.
pub async fn run(
    cores: Vec<Arc<Deliveries>>,
    config: WorkerConfig,
    clock: SharedClock,
    ids: SharedIdSource,
    shutdown: CancellationToken,
) -> Result<(), WorkerError> {
    let clients = client::Clients::new(config.root_certificate.as_deref(), config.timeout)?;
    run_over(Arc::new(clients), cores, config, clock, ids, shutdown).await
}

/// Does the same with another transport of attempts.
///
/// # Errors
/// Fails when the configuration cannot be used.
pub async fn run_over(
    transport: Arc<dyn Transport>,
    cores: Vec<Arc<Deliveries>>,
    config: WorkerConfig,
    clock: SharedClock,
    ids: SharedIdSource,
    shutdown: CancellationToken,
) -> Result<(), WorkerError> {
    metrics::declare();
    let guard = guard::Guard::new(thesis_net::resolve::Resolver::new(&config.dns_servers)?, config.allow_networks);
    let worker = claim::Worker {
        cores: report::Cores::new(cores, Arc::clone(&ids)),
        sender: send::Sender { guard, signer: Signer::default(), transport, timeout: config.timeout, clock },
        capacity: config.capacity.max(1),
    };
    Arc::new(worker).run(shutdown).await;
    Ok(())
}
