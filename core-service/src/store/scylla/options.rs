//! Where the cluster is, and why it cannot be used.

use std::{path::PathBuf, time::Duration};

use scylla::errors::NewSessionError;
use secrecy::SecretString;

/// Longest time for one statement, and again for the nodes to agree on its change.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(10);

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
    #[error("{copies} copies of each row, but {nodes} node{} in the data centre", if *nodes == 1 { "" } else { "s" })]
    Copies {
        /// Copies of each row in the data centre.
        copies: usize,
        /// Nodes in the data centre.
        nodes: usize,
        /// The keyspace, where it was made before.
        existing: Option<String>,
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
    /// The keyspace has a layout from before the first release.
    #[error("keyspace `{keyspace}`: its layout (`{migration}`) is older than this version can read")]
    Older {
        /// The keyspace.
        keyspace: String,
        /// A migration that this version no longer has.
        migration: String,
    },
    /// Another process holds the lock and does not finish.
    #[error("keyspace `{0}`: another process has been migrating it for too long")]
    Locked(String),
}
