//! Where the theses of a measured service are kept: a folder of the embedded store, or a keyspace of its own.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use core_service::store::{
    SharedBackend,
    embedded::{EmbeddedStore, Options as EmbeddedOptions},
    scylla::{ScyllaOptions, ScyllaStore},
};
use scylla::client::session_builder::SessionBuilder;
use thesis_net::clock::{Clock as _, SystemClock, SystemIdSource};

use crate::{Failure, Options, StoreKind, load::FACTS, report::number};

/// The setup of a measurement: a store for theses, and how the service runs on it.
pub(crate) struct Setup {
    /// Number of theses in the store.
    pub(crate) theses: u64,
    /// Whether the service runs as three processes.
    pub(crate) apart: bool,
    /// The embedded store's folder; for a keyspace, of the files around it.
    pub(crate) dir: PathBuf,
    cluster: Option<ScyllaOptions>,
}

impl Setup {
    /// The setup for `theses` theses on a store, in its own folder below `base`.
    pub(crate) fn new(options: &Options, store: StoreKind, theses: u64, base: &Path) -> Result<Self, Failure> {
        let (name, cluster) = match store {
            StoreKind::Embedded => ("embedded", None),
            StoreKind::Cql if options.nodes.is_empty() => return Err("--store cql needs --nodes".into()),
            StoreKind::Cql => ("cql", Some(cluster(&options.nodes, theses)?)),
        };
        let dir = base.join(format!("{name}-{theses}-{}", options.days));
        std::fs::create_dir_all(&dir)?;
        Ok(Self { theses, apart: options.processes && cluster.is_some(), dir, cluster })
    }

    /// Whether it is a keyspace.
    pub(crate) fn is_cluster(&self) -> bool {
        self.cluster.is_some()
    }

    /// The store, and how many processes run on it.
    pub(crate) fn kind(&self) -> String {
        let store = if self.is_cluster() { "CQL" } else { "the embedded store" };
        let processes = if self.apart { "three processes" } else { "one process" };
        format!("{store}, {processes}")
    }

    /// Whether it was loaded by an earlier run.
    pub(crate) fn is_loaded(&self) -> bool {
        !self.is_cluster() && self.dir.join(FACTS).exists()
    }

    /// Opens it in this process.
    pub(crate) async fn open(&self) -> Result<SharedBackend, Failure> {
        let clock = Arc::new(SystemClock);
        Ok(match &self.cluster {
            None => Arc::new(EmbeddedStore::open(&self.dir, EmbeddedOptions::default(), clock, &SystemIdSource)?),
            Some(options) => Arc::new(ScyllaStore::connect(options.clone(), clock).await?),
        })
    }

    /// Where the service keeps its search index.
    pub(crate) fn search_dir(&self) -> Option<PathBuf> {
        (!self.is_cluster()).then(|| self.dir.join("search"))
    }

    /// The service's settings for it.
    pub(crate) fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![("SVC_DATA_DIR", self.dir.display().to_string())];
        if let Some(options) = &self.cluster {
            settings.extend([
                ("SVC_STORE", "scylla".to_owned()),
                ("SVC_SCYLLA_NODES", options.nodes.join(",")),
                ("SVC_SCYLLA_KEYSPACE", options.keyspace.clone()),
                ("SVC_SCYLLA_REPLICATION_FACTOR", options.replication_factor.to_string()),
            ]);
        }
        settings
    }

    /// Removes data that would outlive the run.
    pub(crate) async fn clear(&self) -> Result<(), Failure> {
        if let Some(options) = &self.cluster {
            let session = SessionBuilder::new().known_nodes(&options.nodes).build().await?;
            session.query_unpaged(format!("DROP KEYSPACE IF EXISTS {}", options.keyspace), ()).await?;
        }
        Ok(())
    }
}

fn cluster(nodes: &[String], theses: u64) -> Result<ScyllaOptions, Failure> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (now_ms, process, number) = (SystemClock.now_ms(), std::process::id(), NEXT.fetch_add(1, Relaxed));
    Ok(ScyllaOptions {
        nodes: nodes.to_vec(),
        keyspace: format!("bench_{now_ms}_{process}_{theses}_{number}"),
        replication_factor: u32::try_from(nodes.len())?.min(3),
        datacenter: "datacenter1".to_owned(),
        user: None,
        password: None,
        ca_file: None,
    })
}

impl fmt::Display for Setup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} theses on {}", number(self.theses as f64), self.kind())
    }
}
