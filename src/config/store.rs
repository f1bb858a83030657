//! Where the data is kept.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use core_service::store::scylla::{ConnectError, ScyllaOptions};
use secrecy::SecretString;

use super::Refused;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// A file of one core.
    Embedded,
    /// A ScyllaDB or Cassandra cluster.
    Scylla,
}

/// Where the data is kept.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct Store {
    /// Where core keeps its data
    #[arg(long = "store", env = "SVC_STORE", value_enum, default_value_t = StoreKind::Embedded)]
    pub(crate) kind: StoreKind,
    /// Folder of the embedded store, of the keys kept beside it, and of the search index
    #[arg(long, env = "SVC_DATA_DIR", value_name = "FOLDER", default_value = "./data")]
    pub(crate) data_dir: PathBuf,
    /// Nodes of the cluster, to be named with SVC_STORE=scylla [default: none]
    #[arg(long, env = "SVC_SCYLLA_NODES", value_name = "HOST[:PORT],…", value_delimiter = ',')]
    pub(crate) scylla_nodes: Vec<String>,
    /// Keyspace, made and migrated on start
    #[arg(long, env = "SVC_SCYLLA_KEYSPACE", value_name = "NAME", default_value = "trade_thesis")]
    scylla_keyspace: String,
    /// Copies of each row, for a keyspace that is made
    #[arg(
        long,
        env = "SVC_SCYLLA_REPLICATION_FACTOR",
        value_name = "N",
        default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=99)
    )]
    scylla_replication_factor: u32,
    /// Data centre that every core reads and writes
    #[arg(long, env = "SVC_SCYLLA_DATACENTER", value_name = "NAME", default_value = "datacenter1")]
    scylla_datacenter: String,
    /// User name [default: none]
    #[arg(long, env = "SVC_SCYLLA_USER", value_name = "NAME")]
    scylla_user: Option<String>,
    /// Its password [default: none]
    #[arg(long, env = "SVC_SCYLLA_PASSWORD", value_name = "PASSWORD")]
    scylla_password: Option<SecretString>,
    /// Root certificates (PEM); with them the connection is by TLS [default: none]
    #[arg(long, env = "SVC_SCYLLA_CA_FILE", value_name = "FILE")]
    scylla_ca_file: Option<PathBuf>,
}

impl Store {
    /// How to reach the cluster.
    pub(crate) fn scylla(&self) -> Result<ScyllaOptions, Refused> {
        let nodes: Vec<_> = self.scylla_nodes.iter().map(|node| node.trim().to_owned()).collect();
        if nodes.is_empty() || nodes.iter().any(String::is_empty) {
            return Err(Refused::new("SVC_SCYLLA_NODES", "SVC_STORE=scylla needs nodes, such as 10.0.0.1:9042"));
        }
        match (&self.scylla_user, &self.scylla_password) {
            (Some(_), None) => return Err(Refused::new("SVC_SCYLLA_PASSWORD", "SVC_SCYLLA_USER needs a password")),
            (None, Some(_)) => return Err(Refused::new("SVC_SCYLLA_USER", "SVC_SCYLLA_PASSWORD needs a user")),
            _ => {}
        }
        Ok(ScyllaOptions {
            nodes,
            keyspace: self.scylla_keyspace.clone(),
            replication_factor: self.scylla_replication_factor,
            datacenter: self.scylla_datacenter.clone(),
            user: self.scylla_user.clone(),
            password: self.scylla_password.clone(),
            ca_file: self.scylla_ca_file.clone(),
        })
    }

    /// The setting that a failed connection concerns.
    pub(crate) fn refused(error: &ConnectError) -> Refused {
        let setting = match error {
            ConnectError::CaFile { .. } => "SVC_SCYLLA_CA_FILE",
            ConnectError::Session(_) => "SVC_SCYLLA_NODES",
            ConnectError::Datacenter { .. } => "SVC_SCYLLA_DATACENTER",
            _ => "SVC_SCYLLA_KEYSPACE",
        };
        Refused::new(setting, error)
    }
}
