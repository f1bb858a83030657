//! The store of the data.

use std::{
    io,
    path::{Path, PathBuf},
};

use clap::{Args, ValueEnum};
use core_service::{
    ArchiveOpenError, ArchiveSettings, ArchiveStorage,
    store::{
        embedded::OpenError,
        scylla::{ConnectError, ScyllaOptions},
    },
};
use secrecy::SecretString;
use url::Url;

use super::{Refused, parse};

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum StoreKind {
    /// Files of one core.
    Embedded,
    /// A ScyllaDB or Cassandra cluster.
    Scylla,
}

/// The store of the data.
#[derive(Debug, Args)]
#[command(next_help_heading = "Store")]
pub(crate) struct Store {
    /// Where core keeps its data
    #[arg(long = "store", env = "SVC_STORE", value_enum, default_value_t = StoreKind::Embedded)]
    pub(crate) kind: StoreKind,
    /// Folder of a core's search index, and of the embedded store and its keys; each core needs its own
    #[arg(long, env = "SVC_DATA_DIR", value_name = "FOLDER", default_value = "./data")]
    pub(crate) data_dir: PathBuf,
    /// Where the files of each day lie: `file:///FOLDER`, or `s3://BUCKET/FOLDER` with AWS's own variables [default: the
    /// folder `archive` of the data folder, with SVC_STORE=scylla none]
    #[arg(long, env = "SVC_ARCHIVE_URL", value_name = "URL")]
    archive_url: Option<String>,
    /// Nodes of the cluster, required with SVC_STORE=scylla [default: none]
    // Checked below: the command line's parser would print a wrong one, which may hold credentials.
    #[arg(long, env = "SVC_SCYLLA_NODES", value_name = "HOST[:PORT],…", value_delimiter = ',')]
    pub(crate) scylla_nodes: Vec<String>,
    /// Keyspace, which the start creates and migrates
    #[arg(
        long,
        env = "SVC_SCYLLA_KEYSPACE",
        value_name = "NAME",
        default_value = "trade_thesis",
        value_parser = parse::keyspace
    )]
    scylla_keyspace: String,
    /// Copies of each row, for a keyspace that the start creates
    #[arg(
        long,
        env = "SVC_SCYLLA_REPLICATION_FACTOR",
        value_name = "N",
        default_value_t = 3,
        value_parser = parse::whole(1..=99_u32)
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
    /// The connection settings of the cluster.
    pub(crate) fn scylla(&self) -> Result<ScyllaOptions, Refused> {
        let nodes: Vec<_> = self.scylla_nodes.iter().map(|node| node.trim().to_owned()).collect();
        if nodes.iter().any(|node| node.contains('@')) {
            let refused = Refused::new("SVC_SCYLLA_NODES", "its value holds an `@`, but may hold no credentials");
            return Err(refused.remedy(
                "set it as host:port,host:port; a user and a password go into SVC_SCYLLA_USER and SVC_SCYLLA_PASSWORD",
            ));
        }
        if nodes.is_empty() || nodes.iter().any(String::is_empty) {
            let reason = match self.scylla_nodes.join(",").as_str() {
                "" => "is not set, but SVC_STORE=scylla needs it".to_owned(),
                given => format!("`{given}` holds an empty node"),
            };
            return Err(
                Refused::new("SVC_SCYLLA_NODES", reason).remedy("set it, such as to 10.0.0.1:9042,10.0.0.2:9042")
            );
        }
        match (&self.scylla_user, &self.scylla_password) {
            (Some(_), None) => {
                let refused = Refused::new("SVC_SCYLLA_PASSWORD", "is not set, but SVC_SCYLLA_USER needs a password");
                return Err(refused.remedy("set both, or neither"));
            }
            (None, Some(_)) => {
                let refused = Refused::new("SVC_SCYLLA_USER", "is not set, but SVC_SCYLLA_PASSWORD needs a user");
                return Err(refused.remedy("set both, or neither"));
            }
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

    /// The place of the archive; none without one.
    pub(crate) fn archive_url(&self) -> Result<Option<Url>, Refused> {
        let given = self.archive_url.as_deref().map(str::trim).filter(|given| !given.is_empty());
        match (given, self.kind) {
            (Some(given), _) => {
                let url =
                    Url::parse(given).map_err(|error| Refused::new("SVC_ARCHIVE_URL", error).remedy(ARCHIVE_FORM))?;
                if !url.username().is_empty() || url.password().is_some() {
                    return Err(Refused::new("SVC_ARCHIVE_URL", "it may hold no credentials").remedy(ARCHIVE_FORM));
                }
                if !matches!(url.scheme(), "file" | "s3") {
                    return Err(refused_archive(&url, &ArchiveOpenError::Url));
                }
                Ok(Some(url))
            }
            (None, StoreKind::Scylla) => Ok(None),
            (None, StoreKind::Embedded) => {
                let dir = std::path::absolute(&self.data_dir).map_err(|error| refused_index(&self.data_dir, &error))?;
                let wrong = || Refused::new("SVC_DATA_DIR", "it is no path that a URL can have");
                Url::from_file_path(dir.join(ARCHIVE_DIR)).map(Some).map_err(|()| wrong())
            }
        }
    }

    /// The archive of the files of each day, if there is one. It makes the folder.
    pub(crate) fn archive(&self) -> Result<Option<ArchiveSettings>, Refused> {
        let Some(url) = self.archive_url()? else { return Ok(None) };
        let storage = ArchiveStorage::open(&url).map_err(|error| refused_archive(&url, &error))?;
        Ok(Some(ArchiveSettings { storage, scratch: self.data_dir.clone() }))
    }

    /// Tells that core could not begin on a store that did open.
    pub(crate) fn unstarted(&self, error: &dyn std::error::Error) -> Refused {
        let (setting, value) = match self.kind {
            StoreKind::Embedded => ("SVC_DATA_DIR", self.data_dir.display().to_string()),
            StoreKind::Scylla => ("SVC_SCYLLA_NODES", self.scylla_nodes.join(",")),
        };
        Refused::new(setting, format!("core cannot begin on the store `{value}`: {error}"))
            .remedy("see that the store has room and answers, and start again")
    }

    /// Tells that there is no connection to the cluster.
    pub(crate) fn refused(&self, error: &ConnectError) -> Refused {
        let keyspace = &self.scylla_keyspace;
        let (setting, value, remedy) = match error {
            ConnectError::CaFile { .. } => (
                "SVC_SCYLLA_CA_FILE",
                String::new(),
                "name a PEM file of root certificates that the service's user can read".to_owned(),
            ),
            ConnectError::Session(why) if is_about_user(&why.to_string()) => (
                "SVC_SCYLLA_USER",
                format!("`{}`: ", self.scylla_user.as_deref().unwrap_or_default()),
                "set SVC_SCYLLA_USER and SVC_SCYLLA_PASSWORD as the cluster knows them".to_owned(),
            ),
            ConnectError::Session(_) => (
                "SVC_SCYLLA_NODES",
                format!("`{}`: ", self.scylla_nodes.join(",")),
                format!(
                    "see that the nodes run, that they serve CQL at these addresses, and that the network lets this \
                     machine reach them; {}",
                    self.about_tls()
                ),
            ),
            ConnectError::Datacenter { .. } => {
                ("SVC_SCYLLA_DATACENTER", String::new(), "set it to one of these".to_owned())
            }
            ConnectError::Copies { nodes, existing: None, .. } => (
                "SVC_SCYLLA_REPLICATION_FACTOR",
                String::new(),
                format!("set it to {nodes} or fewer, add nodes, or name the right SVC_SCYLLA_DATACENTER"),
            ),
            ConnectError::Copies { existing: Some(_), .. } => (
                "SVC_SCYLLA_KEYSPACE",
                format!("`{keyspace}`: "),
                "add nodes, or alter the keyspace's replication by the cluster's own tools".to_owned(),
            ),
            ConnectError::Keyspace(_) => ("SVC_SCYLLA_KEYSPACE", String::new(), "set another name".to_owned()),
            ConnectError::Step { .. } => (
                "SVC_SCYLLA_KEYSPACE",
                format!("`{keyspace}`: "),
                "see that enough nodes are up, and that the user may make and alter this keyspace; then start again"
                    .to_owned(),
            ),
            ConnectError::Changed { .. } | ConnectError::Newer { .. } => (
                "SVC_SCYLLA_KEYSPACE",
                String::new(),
                "start the version that last used it, or name another keyspace".to_owned(),
            ),
            ConnectError::Older { .. } => ("SVC_SCYLLA_KEYSPACE", String::new(), "name another keyspace".to_owned()),
            ConnectError::Locked(_) => (
                "SVC_SCYLLA_KEYSPACE",
                String::new(),
                "look at the logs of the other cores; start again once they are done or stopped".to_owned(),
            ),
        };
        Refused::new(setting, format!("{value}{error}")).remedy(remedy)
    }

    /// The TLS setting that may explain unreachable nodes.
    fn about_tls(&self) -> &'static str {
        if self.scylla_ca_file.is_some() {
            "leave out SVC_SCYLLA_CA_FILE if they speak no TLS; else it must hold the root of their certificates, and \
             those must name their IP addresses"
        } else {
            "a node that asks for TLS needs SVC_SCYLLA_CA_FILE"
        }
    }
}

/// True if a cluster refused the user. The driver reports this as text alone.
fn is_about_user(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    ["authenticat", "credentials", "username", "password"].iter().any(|word| why.contains(word))
}

/// Tells that the embedded store does not open.
pub(crate) fn refused_file(dir: &Path, error: &OpenError) -> Refused {
    let remedy = match error {
        OpenError::InUse(_) => "stop the process that uses it, or set SVC_DATA_DIR to another folder".to_owned(),
        OpenError::Newer { .. } => {
            "start the version that wrote it or a newer one, or set SVC_DATA_DIR to another folder".to_owned()
        }
        OpenError::Older { .. } => "set SVC_DATA_DIR to another folder".to_owned(),
        OpenError::Damaged { .. } => {
            "stop every process that uses the folder, and put the last copy of the whole folder in its place".to_owned()
        }
        OpenError::Io { source, .. } => unusable(dir, source),
    };
    Refused::new("SVC_DATA_DIR", error).remedy(remedy)
}

/// What `SVC_ARCHIVE_URL` may be.
const ARCHIVE_FORM: &str =
    "set it as file:///FOLDER, or as s3://BUCKET/FOLDER with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";

/// Tells that the place of the archive cannot be used.
fn refused_archive(url: &Url, error: &ArchiveOpenError) -> Refused {
    let remedy = match error {
        ArchiveOpenError::Folder { .. } => "name a folder that the service's user can write and that has room",
        ArchiveOpenError::Url | ArchiveOpenError::Bucket(_) => ARCHIVE_FORM,
    };
    Refused::new("SVC_ARCHIVE_URL", format!("`{url}`: {error}")).remedy(remedy)
}

/// Name of the archive's folder in the data folder.
const ARCHIVE_DIR: &str = "archive";
/// Name of the search index's folder in the data folder.
pub(crate) const SEARCH_DIR: &str = "search";

/// Tells that the folder of the search index cannot be used.
pub(crate) fn refused_index(dir: &Path, error: &io::Error) -> Refused {
    let remedy = match error.kind() {
        io::ErrorKind::WouldBlock => {
            "stop the process that uses it, or set SVC_DATA_DIR to another folder: each core needs its own".to_owned()
        }
        _ => unusable(dir, error),
    };
    Refused::new("SVC_DATA_DIR", format!("{}: {error}", dir.display())).remedy(remedy)
}

/// The remedy for a folder or file that the system refuses.
pub(crate) fn unusable(dir: &Path, error: &io::Error) -> String {
    let dir = dir.display();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!("make room on the disk of {dir}, or set SVC_DATA_DIR to a folder on another disk")
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => {
            format!("remove the file that stands where {dir} should be a folder, or set SVC_DATA_DIR to another folder")
        }
        _ => format!(
            "set SVC_DATA_DIR to a folder that the service's user can write, or give that user {dir} and all in it (`chown`)"
        ),
    }
}
