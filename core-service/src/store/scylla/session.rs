//! How the cluster is reached.

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use scylla::{
    client::{
        execution_profile::{ExecutionProfile, ExecutionProfileBuilder},
        session::Session,
        session_builder::SessionBuilder,
    },
    cluster::metadata::Strategy,
    errors::NewSessionError,
    policies::{load_balancing::DefaultPolicy, speculative_execution::SimpleSpeculativeExecutionPolicy},
    statement::{Consistency, SerialConsistency},
};
use secrecy::{ExposeSecret as _, SecretString};

use super::{migrate, retry::AskOthers};

/// Where the cluster is and how to use it.
#[derive(Clone)]
pub struct ScyllaOptions {
    /// Contact points, `host:port`.
    pub nodes: Vec<String>,
    /// The keyspace; created where there is none.
    pub keyspace: String,
    /// Copies of each row in the data centre, for a keyspace that is created.
    pub replication_factor: u32,
    /// The data centre that all replicas of this service read and write.
    pub datacenter: String,
    /// User name, where the cluster asks for one.
    pub user: Option<String>,
    /// Its password.
    pub password: Option<SecretString>,
    /// Root certificates (PEM); with them the connection is by TLS.
    pub ca_file: Option<PathBuf>,
}

/// Why there is no connection to the cluster.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The name of the keyspace cannot be used.
    #[error("`{0}` cannot be a keyspace: a lower-case letter, then up to 47 lower-case letters, digits and `_`")]
    Keyspace(String),
    /// The root certificates cannot be used.
    #[error("the certificate file {} cannot be used: {reason}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// No node answers as it should.
    #[error("the cluster cannot be reached: {0}")]
    Session(#[source] Box<NewSessionError>),
    /// No node is in the data centre.
    #[error("no node of the cluster is in the data centre `{datacenter}`; there are: {known}")]
    Datacenter {
        /// The data centre.
        datacenter: String,
        /// Those that the nodes are in.
        known: String,
    },
    /// A row cannot have all its copies.
    #[error("{copies} copies, {nodes} node{}: set SVC_SCYLLA_REPLICATION_FACTOR{}", if *nodes == 1 { "" } else { "s" },
        made.as_ref().map(|keyspace| format!(" for another keyspace, or alter `{keyspace}`")).unwrap_or_default())]
    Copies {
        /// Copies of each row in the data centre.
        copies: usize,
        /// Nodes in the data centre.
        nodes: usize,
        /// The keyspace, where it was made before.
        made: Option<String>,
    },
    /// A step of preparing the keyspace failed.
    #[error("{step}: {reason}")]
    Step {
        /// What was being done.
        step: String,
        /// What went wrong.
        reason: String,
    },
    /// A migration is not what it was when it was applied.
    #[error("keyspace `{keyspace}`: migration `{migration}` has changed since it was applied there")]
    Changed {
        /// The keyspace.
        keyspace: String,
        /// The migration.
        migration: String,
    },
    /// The keyspace belongs to a newer version.
    #[error("keyspace `{keyspace}` is from a newer version: this one does not know its migration `{migration}`")]
    Newer {
        /// The keyspace.
        keyspace: String,
        /// The migration.
        migration: String,
    },
    /// Another process holds the lock and does not finish.
    #[error("keyspace `{0}`: another process has been migrating it for too long")]
    Locked(String),
}

impl ConnectError {
    pub(super) fn step(step: impl Into<String>, error: impl std::fmt::Display) -> Self {
        Self::Step { step: step.into(), reason: error.to_string() }
    }
}

/// Longest wait for an answer before a read is also sent to another node.
const SECOND_TRY: Duration = Duration::from_millis(400);

/// A connection on which nothing is answered for so long is asked whether it lives,
const KEEP_ALIVE: Duration = Duration::from_secs(2);
/// and closed after so long again, so that what waits on it is not lost with a node that fell silent. A node's pauses for
/// garbage are shorter.
const SILENCE: Duration = Duration::from_secs(5);
/// A new connection has so long.
const CONNECT: Duration = Duration::from_secs(2);

/// What every statement has in common: the data centre's quorum, asked of a replica where possible and never elsewhere.
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

/// The same for what may be repeated.
pub(super) fn repeated(datacenter: &str) -> ExecutionProfileBuilder {
    profile(datacenter).retry_policy(Arc::new(AskOthers))
}

/// The same for reads. A write that is slow is under way at every copy; sent again it would only be twice the work.
pub(super) fn reads(datacenter: &str) -> ExecutionProfileBuilder {
    let speculation = SimpleSpeculativeExecutionPolicy { max_retry_count: 1, retry_interval: SECOND_TRY };
    repeated(datacenter).speculative_execution_policy(Some(Arc::new(speculation)))
}

/// Connects; no keyspace is chosen yet.
pub(super) async fn open(options: &ScyllaOptions) -> Result<Session, ConnectError> {
    let name = &options.keyspace;
    let letters = name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    if !letters || name.len() > 48 || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        return Err(ConnectError::Keyspace(name.clone()));
    }
    let profile = repeated(&options.datacenter);
    let mut builder = SessionBuilder::new()
        .known_nodes(&options.nodes)
        .default_execution_profile_handle(profile.build().into_handle())
        .connection_timeout(CONNECT)
        .keepalive_interval(KEEP_ALIVE)
        .keepalive_timeout(SILENCE)
        .schema_agreement_timeout(migrate::STEP);
    if let (Some(user), Some(password)) = (&options.user, &options.password) {
        builder = builder.user(user, password.expose_secret());
    }
    if let Some(path) = &options.ca_file {
        let config = tls(path).map_err(|reason| ConnectError::CaFile { path: path.clone(), reason })?;
        builder = builder.tls_context(Some(Arc::new(config)));
    }
    builder.build().await.map_err(|error| ConnectError::Session(Box::new(error)))
}

/// Refuses a keyspace whose rows need more copies in the data centre than it has nodes: nothing could be written there, and
/// every write would only be late.
pub(super) fn judge_copies(session: &Session, options: &ScyllaOptions) -> Result<(), ConnectError> {
    let cluster = session.get_cluster_state();
    let datacenters = || cluster.get_nodes_info().iter().filter_map(|node| node.datacenter.as_deref());
    let nodes = datacenters().filter(|datacenter| *datacenter == options.datacenter).count();
    if nodes == 0 {
        let known: BTreeSet<&str> = datacenters().collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(ConnectError::Datacenter { datacenter: options.datacenter.clone(), known });
    }
    let made = cluster.get_keyspace(&options.keyspace);
    let copies = match made.map(|keyspace| &keyspace.strategy) {
        None => usize::try_from(options.replication_factor).unwrap_or(usize::MAX),
        Some(Strategy::SimpleStrategy { replication_factor }) => *replication_factor,
        Some(Strategy::NetworkTopologyStrategy { datacenter_repfactors }) => {
            datacenter_repfactors.get(&options.datacenter).copied().unwrap_or_default()
        }
        Some(_) => 0,
    };
    if copies > nodes {
        return Err(ConnectError::Copies { copies, nodes, made: made.map(|_| options.keyspace.clone()) });
    }
    Ok(())
}

fn tls(path: &PathBuf) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| error.to_string())? {
        roots.add(certificate.map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("it holds no certificate".to_owned());
    }
    // Named, because two providers are compiled in.
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
