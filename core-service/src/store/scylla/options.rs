//! Options of the cluster, and the errors of a connection.

use std::{path::PathBuf, time::Duration};

use scylla::errors::NewSessionError;
use secrecy::SecretString;

/// Timeout of one statement, and again of the schema agreement about its change.
pub(super) const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// Address and options of the cluster.
#[derive(Clone)]
pub struct ScyllaOptions {
    /// Contact points, `host:port`.
    pub nodes: Vec<String>,
    /// The keyspace. A missing one is created.
    pub keyspace: String,
    /// Number of copies of each row in the data centre, for a new keyspace.
    pub replication_factor: u32,
    /// The data centre that all replicas of this service read and write.
    pub datacenter: String,
    /// User name, if the cluster requires one.
    pub user: Option<String>,
    /// The password of the user.
    pub password: Option<SecretString>,
    /// Root certificates (PEM). With them the connection uses TLS.
    pub ca_file: Option<PathBuf>,
}

/// The reason why there is no connection to the cluster.
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
        /// The reason.
        reason: String,
    },
    /// No node gives a valid response.
    #[error("the cluster cannot be reached: {0}")]
    Session(#[source] Box<NewSessionError>),
    /// No node is in the data centre.
    #[error("no node of the cluster is in the data centre `{datacenter}`; there are: {known}")]
    Datacenter {
        /// The data centre.
        datacenter: String,
        /// The data centres of the nodes.
        known: String,
    },
    /// A row cannot have all its copies.
    #[error("{copies} copies of each row, but {nodes} node{} in the data centre", if *nodes == 1 { "" } else { "s" })]
    Copies {
        /// Number of copies of each row in the data centre.
        copies: usize,
        /// Number of nodes in the data centre.
        nodes: usize,
        /// The keyspace, if it exists already.
        existing: Option<String>,
    },
    /// A step of preparing the keyspace failed.
    #[error("{step}: {reason}")]
    Step {
        /// The step that failed.
        step: String,
        /// The reason.
        reason: String,
    },
    /// A migration has changed since it was applied.
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
