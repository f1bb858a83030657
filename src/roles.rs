//! Puts the parts together, runs them, and stops them in order.
//!
//! On a signal a process stops being ready, serves for `SVC_DRAIN_SECONDS`, closes its listeners and finishes. A second
//! signal ends it at once. The times in `deploy/` (`stop_grace_period`, `terminationGracePeriodSeconds`,
//! `TimeoutStopSec`, the checks in `haproxy.cfg`) follow from these: change them together.

mod core;

use std::{io, net::SocketAddr, sync::Arc, task::Poll, time::Duration};

use core_service::grpc::{self, Exposure, Serving};
use delivery_worker::WorkerConfig;
use ipnet::IpNet;
use rest_edge::EdgeConfig;
use thesis_net::{
    clock::{SharedClock, SharedIdSource, SystemClock, SystemIdSource},
    services::{PeerCore, Services},
    status::{Reporter, set_clock},
    tls::Identity,
};
use thesis_proto::v1::ProcessRole;
use tokio::{
    net::TcpListener,
    signal::unix::{Signal, SignalKind, signal},
    task::{JoinError, JoinSet},
    time::timeout,
};
use tokio_util::sync::CancellationToken;

use self::core::StartedCore;
use crate::{
    Failure,
    config::{Addresses, Refused, Settings},
    demo::Demo,
    files::Files,
    health, metrics,
    ops::{self, Need},
    port::BoundPorts,
    ready::{self, ListenAddresses, StartDetails},
    role::Role,
    secrets, telemetry, traces, version,
};

/// The protocols of REST over TLS, the preferred one first: an open stream over HTTP/1.1 takes far less memory.
const REST_PROTOCOLS: [&str; 2] = ["http/1.1", "h2"];
/// Protocols of gRPC; gRPC-web needs no HTTP/2.
const GRPC_PROTOCOLS: [&str; 2] = ["h2", "http/1.1"];
/// Timeout for edge and worker to finish when they stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(7);
/// Maximum time after that for calls to core to finish, and as long again for core's streams.
const LAST_CALLS_TIMEOUT: Duration = Duration::from_millis(500);
/// Maximum time at the end for the core to make everything durable.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(1_500);

type Parts = JoinSet<Result<(), Failure>>;

type PartResult = Result<Result<(), Failure>, JoinError>;

pub(crate) async fn run(role: Role, mut settings: Settings) -> Result<(), Failure> {
    let metrics = metrics::record()?;
    let demo = Demo::start(role, &mut settings).await?;
    let settings = &settings;
    let filter = telemetry::filter(settings.features.log.as_deref())?;
    let worker = settings.webhooks.worker(role)?;
    let mut process = Process::new();
    set_clock(Arc::clone(&process.clock));
    if role != Role::Worker {
        process.tls = settings.tls.identity(&process.clock)?;
    }
    let prepared = role.is(Role::Core).then(|| core::prepare(settings)).transpose()?;
    let listeners = Listeners::bind(role, &settings.addresses)?;
    let at = listeners.addresses(process.tls.is_some())?;
    let spans = traces::send(&settings.traces, role)?;
    let started = match prepared.zip(at.internal.or(at.grpc)) {
        Some((prepared, internal)) => {
            let http = at.http.unwrap_or(settings.addresses.http_addr);
            Some(core::start(settings, prepared, internal, http, &process.clock, &process.ids).await?)
        }
        None => None,
    };
    let (services, need) = match &started {
        Some(started) => (grpc::local(&started.core), Need::Store(Arc::clone(&started.core))),
        None => core_elsewhere(settings, &process.clock)?,
    };
    // Logging begins only here, so that a refused start says so in one line.
    telemetry::log(filter)?;
    tracing::info!(version = version::VERSION, commit = version::COMMIT, role = role.name(), "starting");
    if let Some(started) = &started {
        started.log_changes();
    }
    let (peer, sends) = (Arc::clone(&services.peer), worker.is_some());
    let ops = process.serve(listeners, started.as_ref(), services, worker, settings).await?;
    process.report(role, sends, peer);
    process.watch_certificate(role, settings);
    if let Need::Core(cores) = &need {
        tokio::spawn(process.leaving.clone().run_until_cancelled_owned(health::watch(cores.clone())));
    }
    tokio::spawn(ops::serve(ops, metrics, need, process.files.ops, process.leaving.clone()));
    let signals = Signals::listen()?;
    let details = StartDetails {
        first_key: started.as_ref().and_then(|started| started.first_key.as_ref()),
        set_up: started.as_ref().and_then(|started| started.set_up.as_ref()),
        demo: demo.as_ref(),
    };
    ready::announce(role, at, details)?;
    tracing::info!(role = role.name(), "ready");
    let ended = process.until_left(signals, role.leaving(settings.features.drain_seconds)).await;
    tracing::info!("stopping");
    process.stop(started).await;
    spans.finish().await;
    if let Some(demo) = demo {
        demo.stop().await?;
    }
    tracing::info!("stopped");
    let Some(ended) = ended else { return Ok(()) };
    ended??;
    Err("a part of the service ended by itself".into())
}

/// The services of a core in another process.
fn core_elsewhere(settings: &Settings, clock: &SharedClock) -> Result<(Services, Need), Refused> {
    let channel = settings.core_channel(Arc::clone(clock))?;
    let token = secrets::service_token(&settings.keys, &settings.store.data_dir)?;
    let services = Services::remote(channel.clone(), channel.each(), &token);
    Ok((services.map_err(|error| Refused::new("SVC_SERVICE_TOKEN", error))?, Need::Core(channel)))
}

struct Listeners {
    ops: TcpListener,
    http: Option<TcpListener>,
    grpc: Option<TcpListener>,
    /// The listener for the roles, if it is another one than that of gRPC.
    internal: Option<TcpListener>,
}

impl Listeners {
    fn bind(role: Role, addresses: &Addresses) -> Result<Self, Refused> {
        let mut taken = BoundPorts::default();
        let ops = taken.listen("SVC_OPS_ADDR", addresses.ops_addr)?;
        let mut listen = |part, setting, address: Option<SocketAddr>| {
            address.filter(|_| role.is(part)).map(|address| taken.listen(setting, address)).transpose()
        };
        Ok(Self {
            ops,
            http: listen(Role::Edge, "SVC_HTTP_ADDR", Some(addresses.http_addr))?,
            grpc: listen(Role::Core, "SVC_GRPC_ADDR", Some(addresses.grpc_addr))?,
            internal: listen(Role::Core, "SVC_INTERNAL_ADDR", addresses.internal_addr)?,
        })
    }

    fn addresses(&self, tls: bool) -> io::Result<ListenAddresses> {
        let local = |listener: &Option<TcpListener>| listener.as_ref().map(TcpListener::local_addr).transpose();
        let [http, grpc, internal] = [local(&self.http)?, local(&self.grpc)?, local(&self.internal)?];
        Ok(ListenAddresses { http, grpc, internal, ops: Some(self.ops.local_addr()?), tls })
    }
}

struct Process {
    clock: SharedClock,
    ids: SharedIdSource,
    /// The certificate of REST and gRPC; none where they are plain.
    tls: Option<Arc<Identity>>,
    files: Files,
    /// Edge and worker.
    parts: Parts,
    /// Servers that edge and worker need until they have finished.
    servers: Parts,
    /// Once cancelled, the process is not ready.
    leaving: CancellationToken,
    /// Once cancelled, the process accepts nothing new.
    stop: CancellationToken,
}

impl Process {
    fn new() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            ids: Arc::new(SystemIdSource),
            tls: None,
            files: Files::raised(),
            parts: Parts::new(),
            servers: Parts::new(),
            leaving: CancellationToken::new(),
            stop: CancellationToken::new(),
        }
    }

    /// Starts the parts of the role. Gives back the operators' listener, which serves once they have started.
    async fn serve(
        &mut self,
        listeners: Listeners,
        started: Option<&StartedCore>,
        services: Services,
        worker: Option<WorkerConfig>,
        settings: &Settings,
    ) -> Result<TcpListener, Failure> {
        let Files { limit, http, grpc, internal, .. } = self.files;
        tracing::info!(files = limit, http, grpc, "connections at most");
        let proxies = &settings.addresses.trusted_proxies;
        if let (Some(listener), Some(started)) = (listeners.grpc, started) {
            let exposure = if listeners.internal.is_some() { Exposure::Public } else { Exposure::All };
            self.serve_grpc(listener, exposure, started, proxies.clone(), grpc);
        }
        if let (Some(listener), Some(started)) = (listeners.internal, started) {
            // No proxy is between the roles and core.
            self.serve_grpc(listener, Exposure::Internal, started, Vec::new(), internal);
        }
        if let Some(listener) = listeners.http {
            let url = settings.addresses.public_url(settings.tls.scheme(), listener.local_addr()?);
            let mut config = EdgeConfig::new(url);
            config.max_connections = http;
            config.tls = self.tls.as_ref().map(|tls| tls.acceptor(&REST_PROTOCOLS));
            config.trusted_proxies.clone_from(proxies);
            let (clock, ids) = (Arc::clone(&self.clock), Arc::clone(&self.ids));
            let serving = rest_edge::serve(listener, services.clone(), config, clock, ids, self.stop.clone());
            self.parts.spawn(async move {
                serving.await;
                Ok(())
            });
        }
        if let Some(config) = worker {
            self.work(services, config, settings).await?;
        }
        Ok(listeners.ops)
    }

    fn serve_grpc(
        &mut self,
        listener: TcpListener,
        exposure: Exposure,
        started: &StartedCore,
        trusted_proxies: Vec<IpNet>,
        connections: usize,
    ) {
        let serving = Serving {
            exposure,
            tls: self.tls.as_ref().map(|tls| tls.acceptor(&GRPC_PROTOCOLS)),
            connections,
            trusted_proxies,
            leaving: self.leaving.clone(),
            shutdown: self.stop.clone(),
        };
        self.servers.spawn(grpc::serve(listener, Arc::clone(&started.core), serving));
    }

    async fn work(&mut self, services: Services, config: WorkerConfig, settings: &Settings) -> Result<(), Refused> {
        let (clock, ids) = (Arc::clone(&self.clock), Arc::clone(&self.ids));
        let working = delivery_worker::run(services.deliveries, config, clock, ids, self.stop.clone());
        let mut working = Box::pin(working);
        // The first poll sets up the worker; a setting that it cannot use ends it there.
        if let Poll::Ready(ended) = futures::poll!(working.as_mut()) {
            ended.map_err(|error| settings.webhooks.unusable(&error))?;
        }
        self.parts.spawn(async move { Ok(working.await?) });
        Ok(())
    }

    /// Reports to core, until the process stops, that it lives and what it measured.
    fn report(&mut self, role: Role, sends: bool, core: Arc<PeerCore>) {
        let parts = [
            (role.is(Role::Edge), ProcessRole::Edge),
            (role.is(Role::Core), ProcessRole::Core),
            (sends, ProcessRole::Worker),
        ];
        let roles = parts.into_iter().filter_map(|(has, part)| has.then_some(part)).collect();
        let reporter = Reporter::new(roles, version::VERSION, core, Arc::clone(&self.clock), self.ids.as_ref());
        let stop = self.stop.clone();
        self.parts.spawn(async move {
            reporter.run(stop).await;
            Ok(())
        });
    }

    /// Warns if others refuse the certificate, and loads renewed ones.
    fn watch_certificate(&self, role: Role, settings: &Settings) {
        let Some(tls) = &self.tls else { return };
        for doubt in tls.doubts(settings.addresses.advertise_url.as_deref().filter(|_| role.is(Role::Core))) {
            tracing::warn!(%doubt, "others refuse the TLS certificate, now or soon");
        }
        tokio::spawn(Arc::clone(tls).watch());
    }

    /// Serves until a signal, then for `grace_period` while not ready. A second signal ends the process at once. Gives
    /// the end of a part that ended by itself, if one did.
    async fn until_left(&mut self, mut signals: Signals, grace_period: Duration) -> Option<PartResult> {
        let ended = tokio::select! {
            () = signals.next() => None,
            ended = self.end_of_a_part() => Some(ended),
        };
        tokio::spawn(async move {
            signals.next().await;
            tracing::warn!("a second signal: ending at once");
            std::process::exit(1);
        });
        self.leaving.cancel();
        if ended.is_some() {
            return ended;
        }
        tracing::info!(seconds = grace_period.as_secs(), "no longer ready");
        timeout(grace_period, self.end_of_a_part()).await.ok()
    }

    /// Waits until a part ends by itself.
    async fn end_of_a_part(&mut self) -> PartResult {
        tokio::select! {
            Some(ended) = self.parts.join_next() => ended,
            Some(ended) = self.servers.join_next() => ended,
            else => std::future::pending().await,
        }
    }

    /// Stops all parts from accepting. Edge and worker finish while the core still runs.
    async fn stop(mut self, started: Option<StartedCore>) {
        self.stop.cancel();
        finish(&mut self.parts, DRAIN_TIMEOUT).await;
        let Some(started) = started else { return };
        finish(&mut self.servers, LAST_CALLS_TIMEOUT).await;
        started.core.stop.cancel();
        finish(&mut self.servers, LAST_CALLS_TIMEOUT).await;
        if timeout(CLOSE_TIMEOUT, started.core.close()).await.is_err() {
            tracing::warn!("the core did not close in time");
        }
    }
}

pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits for parts to end, no longer than `grace_period`.
async fn finish(parts: &mut Parts, grace_period: Duration) {
    let all = async {
        while let Some(ended) = parts.join_next().await {
            if let Err(error) = ended.map_err(Failure::from).flatten() {
                tracing::warn!(%error, "a part ended badly");
            }
        }
    };
    if timeout(grace_period, all).await.is_err() {
        tracing::debug!("some calls are still open");
    }
}
