//! A core on a store that can fail, a clock that runs ahead while nothing happens, clients and a worker.

use std::{
    collections::BTreeSet,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use thesis_net::clock::{Clock, SharedClock};
use tokio::time::Instant;
use tonic::{Code, Response, Status};

use super::{
    links::Links,
    recount::Delays,
    stored::{self, replay},
    worker::work,
    world_store::{Dice, RandomFaults, StoreKind, WorldStore},
};
use crate::{
    grpc::Api,
    search::SearchIndex,
    service::Core,
    start::CoreSettings,
    store::{Backend as _, Table, Value},
    tests::{
        faulty::{Fault, MemoryStore, Process},
        harness::{NOON, ids, settings},
    },
};

/// The failing call, and its fault.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) number: usize,
    pub(super) fault: Fault,
}

/// A clock that follows tokio's.
#[derive(Debug)]
struct PausedClock {
    start: Instant,
    at: i64,
}

fn clock(at: i64) -> SharedClock {
    Arc::new(PausedClock { start: Instant::now(), at })
}

impl Clock for PausedClock {
    fn now_ms(&self) -> i64 {
        self.at + i64::try_from(self.start.elapsed().as_millis()).unwrap()
    }
}

/// The acknowledged writes.
#[derive(Clone, Debug, Default)]
pub(in crate::tests) struct Acknowledged {
    /// Dataset and id of entries.
    pub(in crate::tests) entries: BTreeSet<(String, String)>,
    /// Theses of the live dataset deleted upstream.
    pub(in crate::tests) gone: BTreeSet<String>,
    /// Kind and name of rows that operators created once.
    pub(in crate::tests) created: Vec<(&'static str, String)>,
    /// Webhooks that exist, and deleted ones.
    pub(in crate::tests) webhooks: BTreeSet<String>,
    pub(in crate::tests) deleted: BTreeSet<String>,
    /// Alerts that exist.
    pub(in crate::tests) alerts: BTreeSet<String>,
    /// Webhooks whose endpoint has answered 410.
    pub(in crate::tests) disabled: BTreeSet<String>,
}

/// State of one test.
pub(super) struct World {
    pub(super) store: WorldStore,
    pub(super) clock: SharedClock,
    pub(super) process: Arc<Process>,
    /// Faults that happen to every process of this world.
    pub(super) random_faults: Option<RandomFaults>,
    pub(super) tick_seconds: u32,
    pub(super) acknowledged: Acknowledged,
    /// Webhooks that existed before the case.
    pub(super) old_webhooks: BTreeSet<String>,
    /// Delays with which its alerts may be judged.
    pub(super) delays: Delays,
    /// Attempts of the worker: delivery and number.
    pub(super) sent: Arc<Mutex<BTreeSet<(String, i32)>>>,
    /// True if first attempts fail.
    pub(super) first_fails: bool,
    /// Rows that must hold this text.
    pub(super) expected: Vec<(&'static Table, Vec<Value>, &'static str)>,
    pub(super) started_at: i64,
    /// The rows of the first logs, projected into an empty store.
    pub(super) replayed: Arc<MemoryStore>,
    /// Not used here, and costly to create.
    search: Arc<SearchIndex>,
    core: Option<Arc<Core>>,
    /// The links to the cores of other worlds, and the address of this one.
    links: Option<(Arc<Links>, String)>,
}

static REPLICA: AtomicU64 = AtomicU64::new(1);

impl World {
    fn on(store: WorldStore, clock: SharedClock, search: Arc<SearchIndex>) -> Self {
        let backend = store.backend();
        Self {
            replayed: Arc::new(MemoryStore::new(backend.is_exclusive())),
            search,
            process: Process::new(backend),
            store,
            started_at: clock.now_ms(),
            clock,
            random_faults: None,
            tick_seconds: 0,
            acknowledged: Acknowledged::default(),
            old_webhooks: BTreeSet::new(),
            delays: Delays::OF_PROCESSES,
            sent: Arc::default(),
            first_fails: false,
            expected: Vec::new(),
            core: None,
            links: None,
        }
    }

    /// An idle store with the sandbox, the bootstrap keys and a webhook of the test project.
    pub(super) async fn base(store: StoreKind) -> Self {
        let search = Arc::new(SearchIndex::open(None).unwrap());
        let clock = clock(NOON);
        let mut world = Self::on(WorldStore::new(store, &clock), clock, search);
        let id = world.create_webhook("base", "https://1.1.1.1/base").await;
        world.old_webhooks.insert(id);
        world.rest().await;
        world
    }

    /// Finishes all work and stops. Copies begin from here.
    pub(super) async fn rest(&mut self) {
        self.settle().await;
        tokio::time::sleep(Duration::from_secs(2)).await;
        self.stop();
        tokio::time::sleep(Duration::from_mins(1)).await;
        drop(replay(&*self.store.rows().await, &self.replayed).await);
        self.started_at = self.clock.now_ms();
    }

    fn with(&self, store: WorldStore, clock: SharedClock) -> Self {
        let mut other = Self::on(store, clock, self.search.clone());
        other.acknowledged = self.acknowledged.clone();
        other.replayed = self.replayed.clone();
        other.old_webhooks = self.old_webhooks.clone();
        other
    }

    /// A copy, for a case to change.
    pub(super) fn copy(&self) -> Self {
        let clock = clock(self.now());
        self.with(self.store.copy(&clock), clock)
    }

    /// Another process on the same store.
    pub(super) fn beside(&self) -> Self {
        let mut other = self.with(self.store.clone(), self.clock.clone());
        other.sent = self.sent.clone();
        other.acknowledged = Acknowledged::default();
        other
    }

    /// A world on the rows that other processes have left, some time after their end.
    pub(super) fn after(rows: Arc<MemoryStore>, at: i64, acknowledged: Acknowledged) -> Self {
        let search = Arc::new(SearchIndex::open(None).unwrap());
        let mut world = Self::on(WorldStore::Memory(rows), clock(at), search);
        world.old_webhooks = acknowledged.webhooks.clone();
        world.acknowledged = acknowledged;
        world.delays = Delays::OF_NETWORK;
        // Nobody else lives at the addresses in the rows.
        let links = Links::new(Dice(0));
        links.calm();
        world.links = Some((links, "http://after:1".to_owned()));
        world
    }

    /// An empty store.
    pub(super) fn empty(&self) -> Self {
        let clock = clock(self.now());
        Self::on(WorldStore::new(self.store.kind(), &clock), clock, self.search.clone())
    }

    pub(super) fn now(&self) -> i64 {
        self.clock.now_ms()
    }

    /// Counts calls from now on; the planned fault may happen.
    pub(super) fn count(&self, reads: bool) {
        self.process.count(reads);
    }

    /// Plans the fault that happens.
    pub(super) fn plan(&self, plan: Plan) {
        self.process.set_chooser(Box::new(move |number, _| (number == plan.number).then_some(plan.fault)));
    }

    /// The running core; starts one when there is none.
    pub(super) async fn core(&mut self) -> Arc<Core> {
        loop {
            if let Some(fault) = self.process.ended() {
                self.stop();
                self.store.end(fault, self.random_faults.as_ref(), &self.clock);
                self.process = Process::new(self.store.backend());
            }
            match &self.core {
                Some(core) => return Arc::clone(core),
                None => self.start().await,
            }
        }
    }

    async fn start(&mut self) {
        let (dial, advertise_url) = match &self.links {
            Some((links, address)) => (Some(links.dial()), address.clone()),
            None => (None, String::new()),
        };
        let settings = CoreSettings { sandbox_tick_seconds: self.tick_seconds, advertise_url, ..settings() };
        let replica = REPLICA.fetch_add(1, Ordering::Relaxed);
        let (search, process) = (self.search.clone(), self.process.clone());
        match Core::start_beside(search, dial, process, settings, self.clock.clone(), ids(replica)).await {
            Ok(core) => {
                tokio::spawn(work(core.clone(), self.sent.clone(), self.first_fails));
                if let Some((links, address)) = &self.links {
                    links.enter(address, &core, &self.process);
                }
                self.core = Some(core);
                self.go_wrong();
            }
            Err(_) => {
                // A failed start ends the process, and its supervisor starts another.
                self.process.end();
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }

    /// Enables random faults in the running process.
    fn go_wrong(&self) {
        if let Some(random_faults) = self.random_faults.clone() {
            let exclusive = self.process.is_exclusive();
            self.process.set_chooser(Box::new(move |_, called| random_faults.choose(called, exclusive)));
            self.process.count(true);
        }
    }

    /// Enables random faults in every process of this world from now on.
    pub(super) fn set_random_faults(&mut self, random_faults: RandomFaults) {
        self.random_faults = Some(random_faults);
        if self.core.is_some() {
            self.go_wrong();
        }
    }

    /// Starts a core with an address, linked to the others.
    pub(super) async fn link(&mut self, links: &Arc<Links>, address: &str) {
        self.links = Some((Arc::clone(links), address.to_owned()));
        drop(self.core().await);
    }

    /// The core, if one runs.
    pub(super) fn running(&self) -> Option<&Core> {
        self.core.as_deref()
    }

    /// Notes that a row must hold this text at the end.
    pub(super) fn expect(&mut self, table: &'static Table, key: Vec<Value>, text: &'static str) {
        self.expected.push((table, key, text));
    }

    /// Notes that an operator has created something.
    pub(super) fn note_created(&mut self, kind: &'static str, name: &str) {
        self.acknowledged.created.push((kind, name.to_owned()));
    }

    /// Stops the core; the next one does not tick.
    pub(super) async fn stop_ticking(&mut self) {
        self.idle().await;
        self.process.rest();
        self.stop();
        self.tick_seconds = 0;
    }

    /// Ends all faults.
    pub(super) async fn calm(&mut self) {
        self.process.rest();
        drop(self.core().await);
        self.process.rest();
        self.random_faults = None;
    }

    /// Ends the process as a kill does.
    pub(super) fn stop(&mut self) {
        if let Some((links, address)) = &self.links {
            links.leave(address);
        }
        if let Some(core) = self.core.take() {
            core.stop.cancel();
        }
    }

    /// Waits until nothing more happens at this moment.
    pub(super) async fn idle(&self) {
        let mut before = (usize::MAX, true);
        while before.1 || self.process.busy() != before {
            before = self.process.busy();
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Repeats a request until there is a response, as a client does. A process that has ended gives no response.
    pub(super) async fn ask<T, F: Future<Output = Result<Response<T>, Status>>>(
        &mut self,
        ask: impl Fn(Api) -> F,
    ) -> Result<T, Status> {
        for _ in 0..200 {
            let api = Api::new(&self.core().await);
            let answer = ask(api).await;
            if self.process.ended().is_some() {
                continue;
            }
            match answer {
                Ok(answer) => return Ok(answer.into_inner()),
                Err(status) if matches!(status.code(), Code::Unavailable | Code::Aborted) => {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                }
                Err(status) => return Err(status),
            }
        }
        panic!("no answer")
    }

    /// Sends a request once, and ignores the response.
    pub(super) async fn ask_once<T, F: Future<Output = Result<Response<T>, Status>>>(
        &mut self,
        ask: impl FnOnce(Api) -> F,
    ) {
        let api = Api::new(&self.core().await);
        drop(ask(api).await);
    }

    /// Lets time pass until no work is pending.
    pub(super) async fn settle(&mut self) {
        self.settle_all(true).await;
    }

    /// Lets time pass until no work is pending, except derived events.
    pub(super) async fn settle_written(&mut self) {
        self.settle_all(false).await;
    }

    async fn settle_all(&mut self, derived: bool) {
        let mut pending = String::new();
        // Queue rows that nobody notified the dispatcher of are found after four minutes.
        for _ in 0..300 {
            drop(self.core().await);
            self.idle().await;
            let rows = self.store.rows().await;
            pending = stored::pending_work(&rows, derived) + &stored::due_alerts(&rows, self.now());
            if pending.is_empty() {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        panic!("pending for good: {pending}");
    }
}

/// Waits for an idle core. From then on calls count.
pub(super) async fn ready(world: &mut World) {
    drop(world.core().await);
    world.idle().await;
    world.count(true);
}
