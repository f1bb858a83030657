//! The nodes of a run: cores on one store, workers, and endpoints of webhooks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Weak,
        atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use delivery_worker::WorkerConfig;
use ipnet::IpNet;
use parking_lot::Mutex;
use rest_edge::EdgeConfig;
use secrecy::SecretBox;
use thesis_net::{
    clock::{Clock, SharedClock},
    services::Services,
};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::{
    checks::ShownCheckpoint,
    history::{Fact, History},
    network::{Attempts, CORE_PORT, EDGE_PORT, Listener, channel, core_url, dial},
    store::{StoreFaults, StoreView},
};
use crate::{
    error::Result,
    grpc::{self, Exposure, Serving},
    log::tree::DATASETS,
    search::SearchIndex,
    service::Core,
    start::CoreSettings,
    tests::{
        faulty::MemoryStore,
        harness::{NOON, SERVICE_TOKEN, ids, settings},
    },
};

pub(super) const CORES: usize = 3;
pub(super) const WORKERS: usize = 2;
pub(super) const EDGES: usize = 2;
pub(super) const RECEIVERS: usize = 2;

/// Open attempts of a worker, and the timeout of one.
const ATTEMPTS: usize = 16;
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause until a supervisor starts a process again that did not start.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Time in which the memory of a stopped core becomes free.
const FREE_TIMEOUT: Duration = Duration::from_secs(3);
/// Time in which a core that stops still takes the reports of others.
const LAST_CALLS: Duration = Duration::from_secs(2);
const MAX_CONNECTIONS: usize = 1_000;
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// A core signs at most once a second, so each checkpoint is noted.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(300);
/// Interval in which each core compares the shards of all cores. A lease ends seconds before another core takes it.
const SHARDS_INTERVAL: Duration = Duration::from_millis(300);
/// No node has this address: nothing is looked up by name.
const NAME_SERVER: &str = "192.168.255.254:5300";
/// The network of all nodes.
const NETWORK: &str = "192.168.0.0/16";

/// The clock of a node. It follows simulated time, with a difference.
#[derive(Debug, Default)]
pub(super) struct NodeClock {
    pub(super) ahead_ms: AtomicI64,
    last_ms: AtomicI64,
}

impl Clock for NodeClock {
    fn now_ms(&self) -> i64 {
        if let Some(elapsed) = turmoil::sim_elapsed() {
            self.last_ms.store(i64::try_from(elapsed.as_millis()).unwrap(), Ordering::Relaxed);
        }
        NOON + self.last_ms.load(Ordering::Relaxed) + self.ahead_ms.load(Ordering::Relaxed)
    }
}

/// A node whose process may end and start again.
pub(super) struct Node {
    pub(super) name: String,
    pub(super) clock: Arc<NodeClock>,
    pub(super) store: Arc<StoreFaults>,
}

impl Node {
    fn new(role: &str, number: usize) -> Self {
        Self { name: format!("{role}-{number}"), clock: Arc::default(), store: Arc::default() }
    }

    pub(super) fn clock(&self) -> SharedClock {
        Arc::clone(&self.clock) as SharedClock
    }
}

/// How an endpoint treats attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    Accepts,
    /// Responds with 500.
    Fails,
    /// Never responds.
    Hangs,
    /// Accepts after the timeout of the attempt.
    AcceptsLate,
    /// Accepts, and sends the response twice.
    AcceptsTwice,
    /// Closes the connection without a response.
    Closes,
}

/// An endpoint of a webhook.
pub(super) struct Receiver {
    pub(super) name: String,
    pub(super) treatment: Mutex<Treatment>,
}

/// A key that is revoked during the run: its id and its secret form.
pub(super) type RevocableKey = (String, String);

/// Everything that the nodes of a run share.
pub(super) struct Cluster {
    pub(super) seed: u64,
    pub(super) rows: Arc<MemoryStore>,
    pub(super) history: History,
    pub(super) cores: Vec<Node>,
    pub(super) workers: Vec<Node>,
    pub(super) edges: Vec<Node>,
    pub(super) receivers: Vec<Receiver>,
    /// The names of the clients.
    clients: Vec<String>,
    /// The webhooks and alerts that the run has created, and the key that it revokes.
    pub(super) webhooks: Mutex<BTreeSet<String>>,
    pub(super) alerts: Mutex<BTreeSet<String>>,
    pub(super) revocable: Mutex<Option<RevocableKey>>,
    /// The last process of each core by its name.
    running: Mutex<BTreeMap<String, Weak<Core>>>,
    /// Clients that have requests to make.
    pub(super) busy_clients: AtomicUsize,
    /// Cancelled when everything stops in order.
    pub(super) stop: CancellationToken,
    /// Not used here, and costly to create.
    search: Arc<SearchIndex>,
    /// Number of processes so far, which keeps their ids apart.
    started: AtomicU64,
}

impl Cluster {
    pub(super) fn new(seed: u64, clients: Vec<String>) -> Arc<Self> {
        let nodes = |role, count| (0..count).map(|number| Node::new(role, number)).collect();
        let receiver = |number| {
            let treatment = Mutex::new(Treatment::Accepts);
            Receiver { name: format!("receiver-{number}"), treatment }
        };
        Arc::new(Self {
            seed,
            rows: Arc::new(MemoryStore::new(false)),
            history: History::default(),
            cores: nodes("core", CORES),
            workers: nodes("worker", WORKERS),
            edges: nodes("edge", EDGES),
            receivers: (0..RECEIVERS).map(receiver).collect(),
            clients,
            webhooks: Mutex::default(),
            alerts: Mutex::default(),
            revocable: Mutex::default(),
            running: Mutex::default(),
            busy_clients: AtomicUsize::new(0),
            stop: CancellationToken::new(),
            search: Arc::new(SearchIndex::open(None).unwrap()),
            started: AtomicU64::new(0),
        })
    }

    /// The names of all nodes.
    pub(super) fn names(&self) -> Vec<&str> {
        let nodes = self.processes().map(|node| node.name.as_str());
        let receivers = self.receivers.iter().map(|receiver| receiver.name.as_str());
        nodes.chain(receivers).chain(self.clients.iter().map(String::as_str)).collect()
    }

    /// The nodes whose processes may end and start again.
    pub(super) fn processes(&self) -> impl Iterator<Item = &Node> {
        self.cores.iter().chain(&self.workers).chain(&self.edges)
    }

    /// The services of the cores, as other roles call them.
    fn services(&self, node: &Node) -> Services {
        let each = self.urls().into_iter().map(|url| channel(&[url], node.clock())).collect();
        Services::remote(channel(&self.urls(), node.clock()), each, &SERVICE_TOKEN.into()).unwrap()
    }

    /// A shard of webhooks whose attempts two cores may hand out now, if there is one.
    fn served_twice(&self) -> Option<Fact> {
        let running = self.running.lock();
        let mut served: BTreeMap<i64, &str> = BTreeMap::new();
        for (name, core) in running.iter() {
            let Some(core) = core.upgrade() else { continue };
            for shard in core.dispatcher.served_shards() {
                if let Some(other) = served.insert(shard, name) {
                    return Some(Fact::ServedTwice { shard, cores: [other.to_owned(), name.clone()] });
                }
            }
        }
        None
    }

    /// The URLs of the cores.
    pub(super) fn urls(&self) -> Vec<String> {
        self.cores.iter().map(|core| core_url(&core.name)).collect()
    }

    /// The number of a new process.
    fn next_process(&self) -> u64 {
        self.started.fetch_add(1, Ordering::Relaxed) + 1
    }

    async fn start_core(&self, node: &Node) -> Result<Arc<Core>> {
        let process = self.next_process();
        let mut settings = settings();
        for plan in settings.plans.values_mut() {
            plan.concurrent_streams = 100;
            plan.requests_per_month = 1_000_000;
            plan.heavy_per_minute = 100_000;
        }
        let settings = CoreSettings {
            webhook_allow_networks: vec![network_of_nodes()],
            dns_servers: vec![NAME_SERVER.parse().unwrap()],
            advertise_url: core_url(&node.name),
            log_key: Some(SecretBox::new(Box::new([9; 32]))),
            ..settings
        };
        let store = StoreView::open(Arc::clone(&self.rows), Arc::clone(&node.store), self.seed ^ (process << 32));
        let (search, dial) = (Arc::clone(&self.search), dial(node.clock()));
        let core = Core::start_beside(search, Some(dial), store, settings, node.clock(), ids(process)).await?;
        core.follow_trees(&[]);
        Ok(core)
    }
}

fn network_of_nodes() -> IpNet {
    NETWORK.parse().unwrap()
}

/// Notes the signed checkpoints that a core shows.
async fn note_checkpoints(core: &Core, node: &Node, history: &History) {
    let mut known = BTreeMap::new();
    loop {
        for dataset in DATASETS {
            let trees = core.trees.as_ref().expect("the core has a key");
            let Ok(Some(signed)) = trees.checkpoint(&dataset).await else { continue };
            if known.insert(dataset.clone(), signed.size) != Some(signed.size) {
                let (dataset, root) = (dataset.to_string(), hex::encode(&signed.root));
                history.note(&node.name, Fact::Signed(ShownCheckpoint { dataset, size: signed.size, root }));
            }
        }
        sleep(CHECKPOINT_INTERVAL).await;
    }
}

/// Notes shards of webhooks that two cores serve.
async fn note_shards(cluster: &Cluster, node: &Node) {
    loop {
        if let Some(twice) = cluster.served_twice() {
            cluster.history.note(&node.name, twice);
        }
        sleep(SHARDS_INTERVAL).await;
    }
}

/// One process of a core, from its start to the end of the run.
pub(super) async fn run_core(cluster: Arc<Cluster>, number: usize) {
    let (node, history) = (&cluster.cores[number], &cluster.history);
    let core = loop {
        match cluster.start_core(node).await {
            Ok(core) => break core,
            Err(error) => {
                history.note(&node.name, Fact::Failed(error.to_string()));
                sleep(RESTART_PAUSE).await;
            }
        }
    };
    history.note(&node.name, Fact::Started);
    cluster.running.lock().insert(node.name.clone(), Arc::downgrade(&core));
    let serving = Serving {
        exposure: Exposure::All,
        tls: None,
        connections: MAX_CONNECTIONS,
        trusted_proxies: Vec::new(),
        leaving: CancellationToken::new(),
        shutdown: cluster.stop.child_token(),
    };
    let serving = grpc::serve(Listener::bind(CORE_PORT).await, Arc::clone(&core), serving);
    let stopping = async {
        cluster.stop.cancelled().await;
        // The others report what they have done.
        sleep(LAST_CALLS).await;
        core.stop.cancel();
    };
    let noting = async { tokio::join!(note_checkpoints(&core, node, history), note_shards(&cluster, node)) };
    tokio::join!(serving, stopping, cluster.stop.run_until_cancelled(noting)).0.unwrap();
    core.close().await;
    let (tasks, held) = (core.tasks.len(), Arc::downgrade(&core));
    drop(core);
    let is_free = async {
        while held.strong_count() > 0 {
            sleep(POLL_INTERVAL).await;
        }
    };
    // The history has the number of holders that are left.
    drop(timeout(FREE_TIMEOUT, is_free).await);
    history.note(&node.name, Fact::Stopped { tasks, holders: held.strong_count() });
}

/// One process of a worker, from its start to the end of the run.
pub(super) async fn run_worker(cluster: Arc<Cluster>, number: usize) {
    let node = &cluster.workers[number];
    let (process, services) = (cluster.next_process(), cluster.services(node));
    cluster.history.note(&node.name, Fact::Started);
    let config = WorkerConfig {
        capacity: ATTEMPTS,
        timeout: ATTEMPT_TIMEOUT,
        allow_networks: vec![network_of_nodes()],
        root_certificate: None,
        dns_servers: vec![NAME_SERVER.parse().unwrap()],
    };
    let (clock, stop) = (node.clock(), cluster.stop.child_token());
    let transport = Arc::new(Attempts);
    delivery_worker::run_over(transport, services.deliveries, config, clock, ids(process), stop).await.unwrap();
}

/// One process of an edge, from its start to the end of the run.
pub(super) async fn run_edge(cluster: Arc<Cluster>, number: usize) {
    let node = &cluster.edges[number];
    let (process, services) = (cluster.next_process(), cluster.services(node));
    cluster.history.note(&node.name, Fact::Started);
    let (listener, config) = (Listener::bind(EDGE_PORT).await, EdgeConfig::new("http://edge"));
    rest_edge::serve(listener, services, config, node.clock(), ids(process), cluster.stop.child_token()).await;
}
