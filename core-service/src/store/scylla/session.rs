//! The connection to the cluster.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, pem::PemObject},
};
use scylla::{
    client::{
        execution_profile::{ExecutionProfile, ExecutionProfileBuilder},
        session::Session,
        session_builder::SessionBuilder,
    },
    cluster::metadata::Strategy,
    policies::{load_balancing::DefaultPolicy, speculative_execution::SimpleSpeculativeExecutionPolicy},
    statement::{Consistency, SerialConsistency},
};
use secrecy::ExposeSecret as _;
use thesis_net::tls::client_config;

use super::{
    options::{ConnectError, STEP_TIMEOUT, ScyllaOptions},
    retry::RetryOtherNodes,
};

impl ConnectError {
    pub(super) fn step(step: impl Into<String>, error: impl std::fmt::Display) -> Self {
        Self::Step { step: step.into(), reason: error.to_string() }
    }
}

/// Time without a response after which a read is also sent to another node.
const SECOND_TRY_DELAY: Duration = Duration::from_millis(400);

const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// Time without a response to a keep-alive after which the connection is closed, so that its requests are not lost with
/// a silent node. A node's pauses for garbage collection are shorter.
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The profile of every statement: the data centre's quorum, through a replica if possible, never through another data
/// centre.
pub(super) fn profile(datacenter: &str) -> ExecutionProfileBuilder {
    let policy = DefaultPolicy::builder()
        .prefer_datacenter(datacenter.to_owned())
        .permit_dc_failover(false)
        .token_aware(true)
        .build();
    ExecutionProfile::builder()
        .load_balancing_policy(policy)
        .consistency(Consistency::LocalQuorum)
        .serial_consistency(Some(SerialConsistency::LocalSerial))
}

/// The profile of repeatable statements: they are retried on other nodes.
pub(super) fn repeated(datacenter: &str) -> ExecutionProfileBuilder {
    profile(datacenter).retry_policy(Arc::new(RetryOtherNodes))
}

/// The profile of reads: a slow one is also sent to another node. A slow write is under way at every copy already, and
/// sending it again would only double the work.
pub(super) fn reads(datacenter: &str) -> ExecutionProfileBuilder {
    let speculation = SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: SECOND_TRY_DELAY };
    repeated(datacenter).speculative_execution_policy(Some(Arc::new(speculation)))
}

/// Connects without a keyspace.
pub(super) async fn open(options: &ScyllaOptions) -> Result<Session, ConnectError> {
    let name = &options.keyspace;
    let is_lower_case = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if !is_lower_case || name.len() > 48 || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(ConnectError::Keyspace(name.clone()));
    }
    let profile = repeated(&options.datacenter);
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.nodes)
        // The driver reads the metadata again after each change of the schema. The other keyspaces of a shared cluster
        // do not concern this service.
        .keyspaces_to_fetch([name])
        // A migration does not wait for that: the nodes' events of changes bring it, to other processes too.
        .refresh_metadata_on_auto_schema_agreement(false)
        .default_execution_profile_handle(profile.build().into_handle())
        .connection_timeout(CONNECT_TIMEOUT)
        .keepalive_interval(KEEP_ALIVE_INTERVAL)
        .keepalive_timeout(KEEP_ALIVE_TIMEOUT)
        .schema_agreement_timeout(STEP_TIMEOUT);
    if let (Some(user), Some(password)) = (&options.user, &options.password) {
        builder = builder.user(user, password.expose_secret());
    }
    if let Some(path) = &options.ca_file {
        let config = tls(path).map_err(|reason| ConnectError::CaFile { path: path.clone(), reason })?;
        builder = builder.tls_context(Some(Arc::new(config)));
    }
    builder.build().await.map_err(|error| ConnectError::Session(Box::new(error)))
}

/// Refuses a keyspace whose rows need more copies in the data centre than it has nodes: every write would fail there,
/// and fail late. Returns the numbers of copies and nodes.
pub(super) fn judge_copies(session: &Session, options: &ScyllaOptions) -> Result<(usize, usize), ConnectError> {
    let cluster = session.get_cluster_state();
    let datacenters = || cluster.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref());
    let nodes = datacenters().filter(|datacenter| *datacenter == options.datacenter).count();
    if nodes == 0 {
        let known: BTreeSet<&str> = datacenters().collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(ConnectError::Datacenter { datacenter: options.datacenter.clone(), known });
    }
    let keyspace = cluster.get_keyspace(&options.keyspace);
    let copies = match keyspace.map(|keyspace| &keyspace.strategy) {
        None => usize::try_from(options.replication_factor).unwrap_or(usize::MAX),
        Some(Strategy::SimpleStrategy { replication_factor }) => *replication_factor,
        Some(Strategy::NetworkTopologyStrategy { datacenter_repfactors }) => {
            datacenter_repfactors.get(&options.datacenter).copied().unwrap_or_default()
        }
        Some(_) => 0,
    };
    if copies > nodes {
        return Err(ConnectError::Copies { copies, nodes, existing: keyspace.map(|_| options.keyspace.clone()) });
    }
    Ok((copies, nodes))
}

fn tls(path: &PathBuf) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    Ok(client_config(roots))
}
