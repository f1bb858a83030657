//! Assembles a core: the state that the operations need, and its background tasks.

use std::{
    mem::take,
    net::SocketAddr,
    sync::{Arc, OnceLock},
    time::Duration,
};

use ipnet::IpNet;
use secrecy::{ExposeSecret as _, SecretBox, SecretString};
use thesis_net::{
    clock::{SharedClock, SharedIdSource},
    tls::Authorities,
};
use thesis_proto::v1;
use tokio::sync::Semaphore;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    access::{
        gate::{Gate, GateSettings},
        idempotency::Idempotency,
        key_usage::KeyUsage,
        limits::Limits,
        open_streams::OpenStreams,
        request_log::RequestLog,
    },
    accounts::{AccountSettings, Accounts},
    alerts,
    archive::{self, Archive, ArchiveSettings},
    delivery::{dispatch::Dispatcher, vet_url::UrlVetter},
    domain::{dataset::Dataset, operation::Features, plan::Plans},
    error::Result,
    ingest::{pushes::Pushes, settings::UpstreamSettings, upstream::Upstream},
    keys::key_ring::KeyRing,
    log::{
        datasets::Datasets,
        tree::{self, Trees, WitnessSettings},
    },
    measure,
    metrics::{CONFIGURED, declare},
    operations::{
        account::set_up::set_up_link,
        admin::bootstrap::{Bootstrap, bootstrap},
        ended_sessions,
        missing::MAX_NEAR_SEARCHES,
        stream_tickets, webhook_replays,
    },
    replicas::{
        members::Members,
        peers::{Dial, OnNotification, Peers, over_grpc},
        processes::Processes,
        stream_slots::StreamSlots,
    },
    sandbox,
    search::{
        SearchFolder, SearchIndex,
        follow::{Follower, follow},
    },
    service::Core,
    shared::Shared,
    store::{SharedBackend, observed::ObservedStore},
};

/// Interval at which the limits drop ended windows.
const HOUSEKEEPING: Duration = Duration::from_millis(300);
/// Interval at which unused datasets leave memory, and expired rows are deleted if the store does not do it.
const SWEEP_INTERVAL: Duration = Duration::from_mins(1);
/// Time for tasks to end: the process itself has not much longer.
const LAST_STEPS: Duration = Duration::from_millis(700);
/// Time to send queued mail.
const MAIL_CLOSE_TIMEOUT: Duration = Duration::from_millis(300);

/// The settings that a core starts with.
pub struct CoreSettings {
    /// 32 bytes from which all keys are derived.
    pub secret_key: SecretBox<[u8; 32]>,
    /// 32 bytes of the key that signs the trees over the logs. Without it there are no trees and no receipts.
    pub log_key: Option<SecretBox<[u8; 32]>>,
    /// Witnesses that cosign the trees.
    pub witnesses: Vec<WitnessSettings>,
    /// Where the files of the archive lie. Without it there is no archive.
    pub archive: Option<ArchiveSettings>,
    /// The credential of edge, worker and admin.
    pub service_token: SecretString,
    /// Plans by name.
    pub plans: Plans,
    /// Features that are on.
    pub features: Features,
    /// Networks that lift the address rules of webhook URLs.
    pub webhook_allow_networks: Vec<IpNet>,
    /// Name servers in place of the system's.
    pub dns_servers: Vec<SocketAddr>,
    /// The gRPC URL at which other cores reach this one.
    pub advertise_url: String,
    /// Certificate authorities of other cores.
    pub core_authorities: Authorities,
    /// True if an empty sandbox is filled.
    pub sandbox_fixtures: bool,
    /// Interval between ticks of the sandbox, in seconds; 0 for none.
    pub sandbox_tick_seconds: u32,
    /// Settings of the upstream; none without one.
    pub upstream: Option<UpstreamSettings>,
    /// Folder of the search index; none keeps it in memory.
    pub search_folder: Option<SearchFolder>,
    /// Settings of sign-in and mail.
    pub accounts: AccountSettings,
    /// Keys that the start creates.
    pub bootstrap: Bootstrap,
}

impl Core {
    /// Starts a core on a store: loads the control state, creates the sandbox and the bootstrap keys once, and starts
    /// the tasks.
    pub async fn start(
        backend: SharedBackend,
        mut settings: CoreSettings,
        clock: SharedClock,
        ids: SharedIdSource,
    ) -> Result<Arc<Self>> {
        declare();
        thesis_streams::metrics::declare();
        CONFIGURED.one().set(f64::from(u8::from(settings.upstream.is_some())));
        let backend: SharedBackend = Arc::new(ObservedStore::new(backend));
        let search = Arc::new(SearchIndex::open(settings.search_folder.take())?);
        let witnesses = take(&mut settings.witnesses);
        let core = Self::start_beside(search, None, backend, settings, clock, ids).await?;
        core.tasks.spawn(follow(core.follower()));
        core.tasks.spawn(measure::run(Arc::clone(&core)));
        core.follow_trees(&witnesses);
        core.build_archive();
        Ok(core)
    }

    /// Starts a core with an index that the caller keeps up to date, and with an optional replacement for gRPC between
    /// cores.
    pub(super) async fn start_beside(
        search: Arc<SearchIndex>,
        dial: Option<Dial>,
        backend: SharedBackend,
        settings: CoreSettings,
        clock: SharedClock,
        ids: SharedIdSource,
    ) -> Result<Arc<Self>> {
        let keys = KeyRing::new(settings.secret_key.expose_secret(), Arc::clone(&ids));
        let shared = Arc::new(Shared::load(backend, keys.clone(), Arc::clone(&clock), Arc::clone(&ids)).await?);
        let (backend, control, replica) = (&shared.backend, &shared.control, &shared.replica);
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let dial = dial.unwrap_or_else(|| {
            over_grpc(settings.core_authorities, settings.service_token.clone(), Arc::clone(&clock))
        });
        let plans = settings.plans.clone();
        let gate_settings =
            GateSettings { plans: settings.plans, features: settings.features, service_token: settings.service_token };
        let limits = Limits::new(backend, replica);
        let members = Members::new(Arc::clone(backend), Arc::clone(&clock), replica.clone(), settings.advertise_url);
        members.send_heartbeat().await?;
        let peers = Peers::new(Arc::clone(&members), dial);
        let slots = StreamSlots::new(Arc::clone(backend), Arc::clone(&members));
        let gate = Gate::new(Arc::clone(control), keys.clone(), limits, gate_settings, Arc::clone(&clock), ids);
        let datasets = Datasets::new(Arc::clone(&shared), Arc::clone(&peers), stop.clone(), tasks.clone());
        let upstream = settings
            .upstream
            .map(|settings| Upstream::new(Arc::clone(&shared), Arc::clone(&datasets), Arc::clone(&peers), settings));
        let archive = settings.archive.map(|of| Archive::new(Arc::clone(&shared), Arc::clone(&datasets), of));
        let trees = settings.log_key.map(|key| Trees::new(Arc::clone(&shared), key.expose_secret()));
        let has_set_up = settings.accounts.set_up;
        let core = Arc::new(Self {
            accounts: Accounts::new(settings.accounts)?,
            key_usage: Arc::new(KeyUsage::new(Arc::clone(backend), replica.clone())),
            request_log: RequestLog::new(Arc::clone(backend)),
            set_up_link: OnceLock::new(),
            open_streams: OpenStreams::new(Arc::clone(&gate), Arc::clone(control), Arc::clone(&members), clock),
            gate,
            datasets,
            archive,
            trees,
            upstream: upstream.transpose()?,
            pushes: Pushes::new(Arc::clone(&shared)),
            search,
            near_searches: Arc::new(Semaphore::new(MAX_NEAR_SEARCHES)),
            idempotency: Idempotency::new(Arc::clone(backend), keys, Arc::clone(&shared.ids), shared.clock.now_ms()),
            dispatcher: Dispatcher::new(Arc::clone(&shared), Arc::clone(&members), plans, peers.all_connected()),
            slots,
            members,
            peers,
            processes: Processes::default(),
            urls: UrlVetter::new(settings.webhook_allow_networks, &settings.dns_servers)?,
            shared,
            stop,
            tasks,
        });
        bootstrap(&core, &settings.bootstrap).await?;
        if has_set_up && let Some(link) = set_up_link(&core).await? {
            core.set_up_link.get_or_init(|| link.into());
        }
        core.prepare_datasets(settings.sandbox_fixtures).await?;
        core.spawn(settings.sandbox_tick_seconds);
        Ok(core)
    }

    /// Finishes what an earlier process began in the datasets, and fills an empty sandbox.
    async fn prepare_datasets(&self, sandbox_fixtures: bool) -> Result<()> {
        if self.shared.backend.is_exclusive() {
            self.datasets.recover().await?;
        }
        if sandbox_fixtures {
            sandbox::seed(&self.shared, &self.datasets).await?;
        }
        for dataset in [Dataset::Live, Dataset::Sandbox] {
            self.search.request_dataset(&dataset);
        }
        Ok(())
    }

    pub(crate) fn follower(&self) -> Follower {
        Follower {
            index: Arc::clone(&self.search),
            datasets: Arc::clone(&self.datasets),
            peers: Arc::clone(&self.peers),
            shared: Arc::clone(&self.shared),
            stop: self.stop.clone(),
        }
    }

    /// Makes and signs the trees, if there is a key for them, and gets cosignatures, if there are witnesses.
    pub(crate) fn follow_trees(&self, witnesses: &[WitnessSettings]) {
        let Some(trees) = &self.trees else { return };
        for dataset in tree::DATASETS {
            let (trees, peers, stop) = (Arc::clone(trees), Arc::clone(&self.peers), self.stop.clone());
            if !witnesses.is_empty() {
                let (trees, peers, witnesses) = (Arc::clone(&trees), Arc::clone(&peers), witnesses.to_vec());
                self.tasks.spawn(tree::cosign(trees, peers, dataset.clone(), witnesses, stop.clone()));
            }
            self.tasks.spawn(tree::follow(trees, Arc::clone(&self.datasets), peers, dataset, stop));
        }
    }

    /// Builds the files of the archive, if there is one.
    fn build_archive(&self) {
        let Some(archive) = &self.archive else { return };
        for dataset in archive::DATASETS {
            let (archive, peers, stop) = (Arc::clone(archive), Arc::clone(&self.peers), self.stop.clone());
            self.tasks.spawn(archive::run(archive, peers, dataset, stop));
        }
    }

    fn spawn(self: &Arc<Self>, tick_seconds: u32) {
        self.tasks.spawn(Arc::clone(&self.datasets).watch());
        self.tasks.spawn(Arc::clone(&self.peers).run(
            self.notification_handler(),
            self.stop.clone(),
            self.tasks.clone(),
        ));
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            let mut all_connected = core.peers.all_connected();
            let forwarding = async {
                loop {
                    core.shared.control.set_all_connected(*all_connected.borrow_and_update());
                    if all_connected.changed().await.is_err() {
                        return;
                    }
                }
            };
            core.stop.run_until_cancelled(forwarding).await;
        });
        self.tasks.spawn(Arc::clone(&self.dispatcher).run(self.stop.clone()));
        self.tasks.spawn(Arc::clone(&self.dispatcher).keep_shards(self.stop.clone()));
        self.tasks.spawn(sandbox::tick(
            Arc::clone(&self.shared),
            Arc::clone(&self.datasets),
            self.stop.clone(),
            tick_seconds,
        ));
        for live in [true, false] {
            let (datasets, peers) = (Arc::clone(&self.datasets), Arc::clone(&self.peers));
            self.tasks.spawn(alerts::follow(Arc::clone(&self.shared), datasets, peers, live, self.stop.clone()));
        }
        self.tasks.spawn(Arc::clone(self).keep_house());
        if let Some(upstream) = &self.upstream {
            self.tasks.spawn(Arc::clone(upstream).follow(self.stop.clone()));
        }
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.gate.limits.run(core.shared.clock.as_ref(), &core.stop).await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.key_usage.run(core.shared.clock.as_ref(), &core.stop).await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            core.request_log.run(&core.members, core.shared.clock.as_ref(), &core.stop).await;
        });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.stop.run_until_cancelled(core.shared.control.follow()).await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.stop.run_until_cancelled(core.members.run()).await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            let limit_of = |project: &str| core.gate.stream_limit(project);
            core.stop.run_until_cancelled(core.slots.run(core.shared.control.changes(), limit_of)).await
        });
        self.spawn_watches();
    }

    /// Spawns what looks after sessions, streams and replays that clients began.
    fn spawn_watches(self: &Arc<Self>) {
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.stop.run_until_cancelled(stream_tickets::watch(Arc::clone(&core))).await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.stop.run_until_cancelled(ended_sessions::watch(Arc::clone(&core))).await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move { core.stop.run_until_cancelled(webhook_replays::watch(Arc::clone(&core))).await });
        let core = Arc::clone(self);
        self.tasks.spawn(async move {
            let ended = CancellationToken::new();
            let running = async {
                core.open_streams.run(&core.stop).await;
                ended.cancel();
            };
            tokio::join!(running, stream_tickets::note_closings(&core, &ended))
        });
    }

    fn notification_handler(self: &Arc<Self>) -> OnNotification {
        let core = Arc::downgrade(self);
        Arc::new(move |notification| {
            let Some(core) = core.upgrade() else { return };
            // The first notification lists all logs of a core; only datasets in use here matter.
            let is_known = |dataset: &Dataset| notification.core.is_empty() || core.datasets.knows(dataset);
            for v1::LogNews { dataset, position } in &notification.logs {
                if let Some(dataset) = Dataset::parse(dataset).filter(is_known) {
                    core.datasets.advance_position(&dataset, *position);
                }
            }
            if notification.control {
                core.shared.control.wake();
            }
            if !notification.queues.is_empty() {
                let queues = notification.queues.into_iter();
                core.shared.hints.add_queues(queues.map(|v1::QueueNews { webhook_id, due_at }| (webhook_id, due_at)));
            }
        })
    }

    async fn keep_house(self: Arc<Self>) {
        let mut every = tokio::time::interval(HOUSEKEEPING);
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = every.tick() => {
                    self.gate.limits.sweep(self.shared.clock.now_ms());
                }
                _ = sweep.tick() => {
                    if let Err(error) = self.shared.backend.sweep(self.shared.clock.now_ms()).await {
                        tracing::warn!(%error, "cleaning expired rows failed");
                    }
                    // The search index follows only datasets in memory, so one that it has not reached yet stays.
                    let search = &self.search;
                    self.datasets.close_unused(self.shared.clock.now_ms(), |dataset, position| {
                        search.follows(dataset) && search.position(dataset) < position
                    });
                }
            }
        }
    }

    /// Stops the tasks, stores the counts, sends queued mail, and makes everything durable.
    pub async fn close(&self) {
        self.stop.cancel();
        self.tasks.close();
        if tokio::time::timeout(LAST_STEPS, self.tasks.wait()).await.is_err() {
            tracing::warn!("some tasks did not end in time");
        }
        // Other cores would otherwise have to wait for these steps.
        let mail = async {
            if let Some(mail) = &self.accounts.mail {
                mail.close(MAIL_CLOSE_TIMEOUT).await;
            }
        };
        tokio::join!(
            mail,
            self.key_usage.flush(self.shared.clock.now_ms()),
            self.request_log.flush(),
            self.gate.limits.flush(self.shared.clock.now_ms()),
            async {
                // The leases say when the next core may send what is under way. A core that has left without them would
                // count as one that sends nothing, and its attempts would be sent again at once.
                if self.dispatcher.release().await {
                    self.members.leave().await;
                }
            }
        );
        if let Err(error) = self.shared.backend.close().await {
            tracing::error!(%error, "closing the store failed");
        }
    }
}
