//! One run: the nodes live with the faults of a seed, then in calm, then stop in order. All checks follow.

use std::{
    fs,
    net::IpAddr,
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::runtime;
use turmoil::{Builder, Sim};

use super::{
    checks,
    clients::{self, WRITERS},
    cluster::{self, Cluster},
    history::{Record, trace},
    receivers,
    schedule::{self, CALM_MS, LATENCY, PlannedFault},
    subscribers::{self, Follower},
};
use crate::tests::{faults, harness::NOON};

/// The steps of simulated time. A node runs alone for one.
const TICK: Duration = Duration::from_millis(5);
/// Time in calm in which the clients must get their responses.
const RESPONSES_TIMEOUT: Duration = Duration::from_secs(90);
/// Time in which everything that follows from the last response must happen: connections whose peer is gone are noticed
/// after ten seconds, a silent core after eleven, and events are derived up to five seconds later.
const QUIET: Duration = Duration::from_secs(30);
/// Time in which everything stops.
const STOPPING: Duration = Duration::from_secs(20);
/// Time after the run at which another core finishes what is left, in milliseconds. Deliveries that failed twice are
/// due by then.
const AFTERWARDS_MS: i64 = 10 * 60_000;

/// Writes the trace of a run at its end, whether or not it fails.
struct TraceFile<'a> {
    cluster: Arc<Cluster>,
    path: &'a Path,
}

impl Drop for TraceFile<'_> {
    fn drop(&mut self) {
        fs::write(self.path, trace(&self.cluster.history.records())).expect("the folder of traces has room");
    }
}

/// Runs a seed with some of its faults. Panics if a check fails.
pub(super) fn run(seed: u64, faults: &[PlannedFault], trace: &Path) {
    let writers = (0..WRITERS).map(|number| format!("writer-{number}"));
    let followers = Follower::ALL.map(|follower| follower.name().to_owned());
    let clients = writers.chain(followers).chain(["operator".to_owned()]).collect();
    let cluster = Cluster::new(seed, clients);
    let _trace = TraceFile { cluster: Arc::clone(&cluster), path: trace };
    let mut builder = Builder::new();
    let mut sim = builder
        .rng_seed(seed)
        .tick_duration(TICK)
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(LATENCY)
        .simulation_duration(Duration::from_hours(1))
        .tcp_capacity(4_096)
        .enable_tokio_io()
        .enable_random_order()
        .build();
    add_nodes(&mut sim, &cluster);
    add_clients(&mut sim, &cluster);
    live(&mut sim, &cluster, faults);
    let ended_ms = cluster.history.now_ms();
    drop(sim);
    judge(&cluster, &cluster.history.records(), faults.is_empty(), ended_ms);
}

fn add_nodes(sim: &mut Sim<'_>, cluster: &Arc<Cluster>) {
    for (number, node) in cluster.cores.iter().enumerate() {
        add_process(sim, &node.name, cluster, move |cluster| cluster::run_core(cluster, number));
    }
    for (number, node) in cluster.workers.iter().enumerate() {
        add_process(sim, &node.name, cluster, move |cluster| cluster::run_worker(cluster, number));
    }
    for (number, node) in cluster.edges.iter().enumerate() {
        add_process(sim, &node.name, cluster, move |cluster| cluster::run_edge(cluster, number));
    }
    for (number, receiver) in cluster.receivers.iter().enumerate() {
        let shared = Arc::clone(cluster);
        sim.host(receiver.name.as_str(), move || {
            let cluster = Arc::clone(&shared);
            async move {
                receivers::receive(cluster, number).await;
                Ok(())
            }
        });
    }
}

/// Adds a node whose process may be killed. The tasks of a killed process are dropped inside its runtime.
fn add_process<F: Future<Output = ()> + Send + 'static>(
    sim: &mut Sim<'_>,
    name: &str,
    cluster: &Arc<Cluster>,
    run: impl Fn(Arc<Cluster>) -> F + 'static,
) {
    let cluster = Arc::clone(cluster);
    sim.host(name, move || {
        let process = run(Arc::clone(&cluster));
        async move {
            tokio::spawn(process).await?;
            Ok(())
        }
    });
}

fn add_clients(sim: &mut Sim<'_>, cluster: &Arc<Cluster>) {
    cluster.busy_clients.store(WRITERS + 1, Ordering::Relaxed);
    for number in 0..WRITERS {
        let cluster = Arc::clone(cluster);
        sim.client(format!("writer-{number}"), async move {
            clients::write(cluster, number).await;
            Ok(())
        });
    }
    for follower in Follower::ALL {
        let cluster = Arc::clone(cluster);
        sim.client(follower.name(), async move {
            subscribers::follow(cluster, follower).await;
            Ok(())
        });
    }
    let endpoints: Vec<IpAddr> = cluster.receivers.iter().map(|receiver| sim.lookup(receiver.name.as_str())).collect();
    let cluster = Arc::clone(cluster);
    sim.client("operator", async move {
        clients::operate(cluster, endpoints).await;
        Ok(())
    });
}

/// Lets simulated time pass until a moment.
fn pass(sim: &mut Sim<'_>, cluster: &Cluster, until: Duration) {
    while sim.elapsed() < until {
        sim.step().unwrap();
        cluster.history.set_now(sim.elapsed());
    }
}

fn live(sim: &mut Sim<'_>, cluster: &Cluster, faults: &[PlannedFault]) {
    for change in schedule::changes(faults) {
        pass(sim, cluster, Duration::from_millis(change.at_ms as u64));
        change.apply(sim, cluster);
    }
    pass(sim, cluster, Duration::from_millis(CALM_MS as u64));
    schedule::calm(sim, cluster);
    let late = sim.elapsed() + RESPONSES_TIMEOUT;
    while cluster.busy_clients.load(Ordering::Relaxed) > 0 {
        assert!(sim.elapsed() < late, "some requests had no response");
        let next = sim.elapsed() + Duration::from_millis(100);
        pass(sim, cluster, next);
    }
    let quiet = sim.elapsed() + QUIET;
    pass(sim, cluster, quiet);
    cluster.stop.cancel();
    let stopped = sim.elapsed() + STOPPING;
    pass(sim, cluster, stopped);
}

/// Checks the history and the rows, and lets another core finish what is left.
fn judge(cluster: &Cluster, records: &[Record], is_calm: bool, ended_ms: i64) {
    if let Err(fault) = checks::check(&cluster.rows, records, is_calm) {
        panic!("{fault}");
    }
    let mut acknowledged = checks::acknowledged(records, &cluster.webhooks.lock());
    acknowledged.alerts.clone_from(&cluster.alerts.lock());
    let runtime = runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let rows = Arc::clone(&cluster.rows);
    runtime.block_on(faults::judge_rows(rows, NOON + ended_ms + AFTERWARDS_MS, acknowledged));
}
