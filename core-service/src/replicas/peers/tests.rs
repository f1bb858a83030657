//! Cores over one store that reach each other over sockets.

mod copies;
mod deliveries;
mod months;
mod times;

use std::{future::pending, net::SocketAddr, sync::atomic::AtomicUsize};

use thesis_net::{clock::SystemClock, services::Stream, tls::Authorities};
use thesis_proto::v1::peer_service_server::PeerService;
use tokio::net::TcpListener;
use tonic::{Response, async_trait};

use super::*;
use crate::{
    domain::{
        account::Actor,
        dataset::Dataset,
        event_id::thesis_event_id,
        window::{DAY_MS, HOUR_MS},
    },
    grpc::{self, Exposure, Serving},
    operations::admin::create_project::create_project,
    search::SearchIndex,
    service::Core,
    store::{SharedBackend, schema},
    tests::harness::{ManualClock, SERVICE_TOKEN, SharedMemory, ids, new_thesis, settings},
};

/// Time limit of every wait.
const SOON: Duration = Duration::from_secs(30);

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, waiting).await.unwrap_or_else(|_| panic!("{what}: not in time"));
}

struct Server {
    core: Arc<Core>,
    shutdown: CancellationToken,
}

impl Server {
    /// Ends as a killed process does: without a word.
    fn kill(&self) {
        self.core.stop.cancel();
        self.shutdown.cancel();
    }
}

/// A core that others reach at a socket. Its heartbeats use the system's clock.
async fn start(backend: SharedBackend, number: u64) -> Server {
    start_dialling(backend, number, None).await
}

async fn start_dialling(backend: SharedBackend, number: u64, dial: Option<Dial>) -> Server {
    start_with(SearchIndex::open(None).unwrap(), backend, number, dial).await
}

async fn start_with(search: SearchIndex, backend: SharedBackend, number: u64, dial: Option<Dial>) -> Server {
    let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
    let mut settings = settings();
    settings.advertise_url = format!("http://{}", listener.local_addr().unwrap());
    let core = Core::start_beside(Arc::new(search), dial, backend, settings, Arc::new(SystemClock), ids(number))
        .await
        .unwrap();
    let shutdown = CancellationToken::new();
    let serving = Serving {
        exposure: Exposure::All,
        tls: None,
        connections: 100,
        trusted_proxies: Vec::new(),
        leaving: CancellationToken::new(),
        shutdown: shutdown.clone(),
    };
    tokio::spawn(grpc::serve(listener, Arc::clone(&core), serving));
    Server { core, shutdown }
}

async fn linked(servers: &[&Server]) {
    for server in servers {
        let others = server.core.members.others();
        let owning = |others: &[OtherCore]| others.iter().filter(|other| other.owns).count();
        until("all cores hear each other", async || {
            *server.core.peers.all_connected().borrow() && owning(&others.borrow()) == servers.len() - 1
        })
        .await;
    }
}

/// A dataset that this core owns.
fn owned_by(server: &Server) -> Dataset {
    let named = (0..).map(|number| Dataset::of_project(&format!("p{number}")));
    named.into_iter().find(|dataset| server.core.datasets.owns(dataset)).expect("one of the names")
}

fn backend() -> Arc<SharedMemory> {
    SharedMemory::new(&ManualClock::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_appends_and_tells_the_others() {
    let backend = backend();
    let (one, other) = (start(backend.clone(), 1).await, start(backend.clone(), 2).await);
    linked(&[&one, &other]).await;
    assert!(one.core.peers.connections() > 0, "positions that were read before are read again");
    let dataset = owned_by(&other);
    let begun = backend.applied(&schema::UNFINISHED);
    let mut position = one.core.datasets.position(&dataset).await.unwrap();
    let written = one.core.datasets.create_thesis(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    assert_eq!(written.seq, 1);
    assert_eq!(backend.applied(&schema::UNFINISHED) - begun, 1);
    let rows = crate::tables::unfinished::list_all(&one.core.shared.backend).await.unwrap();
    let of_it = rows.iter().find(|row| row.dataset == dataset.to_string()).unwrap();
    assert_eq!(of_it.replica, other.core.shared.replica, "the owner appended it");
    // The other core finds it too.
    let again = other.core.datasets.create_thesis(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    assert_eq!(again.seq, 1);
    // Other cores receive the owner's own entries without a read of the log.
    let later = other.core.datasets.create_thesis(&dataset, new_thesis(&dataset, 2)).await.unwrap();
    let received = position.wait_for(|position| *position >= later.seq);
    timeout(SOON, received).await.unwrap().unwrap();
    one.kill();
    other.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_owner_a_log_goes_on() {
    let backend = backend();
    let (one, other) = (start(backend.clone(), 1).await, start(backend.clone(), 2).await);
    linked(&[&one, &other]).await;
    let dataset = owned_by(&other);
    one.core.datasets.create_thesis(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    other.kill();
    // Before its death is known, too.
    for number in 2..6 {
        let written = one.core.datasets.create_thesis(&dataset, new_thesis(&dataset, number)).await.unwrap();
        assert!(written.seq > 1);
    }
    until("the log changes its owner", async || one.core.datasets.owns(&dataset)).await;
    let name = dataset.to_string();
    // Of two tokens, both derived events each.
    until("what the dead core owed is derived", async || one.core.datasets.refresh(&dataset).await.unwrap() >= 5 + 4)
        .await;
    let log = one.core.shared.log.read(&name, 0, 5, 10).await.unwrap();
    assert_eq!(log.len(), 5);
    one.kill();
}

/// A core whose notifications arrive, but that answers no request. Its copies break off.
struct Silent {
    core: Arc<PeerCore>,
    /// Number of subscriptions to its notifications.
    subscriptions: Arc<AtomicUsize>,
    /// The response to a search, if there is one.
    refusal: Option<Status>,
}

fn dial_silent(subscriptions: &Arc<AtomicUsize>) -> Dial {
    dial_refusing(subscriptions, None)
}

fn dial_refusing(subscriptions: &Arc<AtomicUsize>, refusal: Option<Status>) -> Dial {
    let to_sockets = over_grpc(Authorities::default(), SERVICE_TOKEN.into(), Arc::new(SystemClock));
    let subscriptions = Arc::clone(subscriptions);
    Arc::new(move |address: &str| {
        let (core, subscriptions) = (to_sockets(address)?, Arc::clone(&subscriptions));
        let silent = Silent { core, subscriptions, refusal: refusal.clone() };
        Ok(Arc::new(silent) as Arc<PeerCore>)
    })
}

#[async_trait]
impl PeerService for Silent {
    type AppendStream = Stream<v1::AppendResponse>;
    type CopyShardStream = Stream<v1::CopyShardResponse>;
    type NewsStream = Stream<v1::NewsResponse>;

    async fn append(&self, _: Request<v1::AppendRequest>) -> Result<Response<Self::AppendStream>, Status> {
        pending().await
    }

    async fn count_theses(
        &self,
        _: Request<v1::CountThesesRequest>,
    ) -> Result<Response<v1::CountThesesResponse>, Status> {
        pending().await
    }

    async fn create_deliveries(
        &self,
        _: Request<v1::CreateDeliveriesRequest>,
    ) -> Result<Response<v1::CreateDeliveriesResponse>, Status> {
        pending().await
    }

    async fn look_up(&self, _: Request<v1::LookUpRequest>) -> Result<Response<v1::LookUpResponse>, Status> {
        pending().await
    }

    async fn get_feed_status(
        &self,
        _: Request<v1::GetFeedStatusRequest>,
    ) -> Result<Response<v1::GetFeedStatusResponse>, Status> {
        pending().await
    }

    async fn report_process(
        &self,
        _: Request<v1::ReportProcessRequest>,
    ) -> Result<Response<v1::ReportProcessResponse>, Status> {
        pending().await
    }

    async fn copy_shard(
        &self,
        request: Request<v1::CopyShardRequest>,
    ) -> Result<Response<Self::CopyShardStream>, Status> {
        Ok(self.core.copy_shard(request).await?.map(|pieces| pieces.take(2).boxed()))
    }

    async fn search_months(
        &self,
        _: Request<v1::SearchMonthsRequest>,
    ) -> Result<Response<v1::SearchMonthsResponse>, Status> {
        match &self.refusal {
            Some(status) => Err(status.clone()),
            None => pending().await,
        }
    }

    async fn news(&self, request: Request<v1::NewsRequest>) -> Result<Response<Self::NewsStream>, Status> {
        self.subscriptions.fetch_add(1, Ordering::Relaxed);
        self.core.news(request).await
    }
}

/// A core whose requests no other core answers.
async fn start_unanswered(backend: SharedBackend, number: u64) -> Server {
    start_dialling(backend, number, Some(dial_silent(&Arc::default()))).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_unreachable_owner_does_not_write_is_written_here_once() {
    let backend = backend();
    let one = start_unanswered(backend.clone(), 1).await;
    let other = start(backend.clone(), 2).await;
    linked(&[&one, &other]).await;
    let dataset = owned_by(&other);
    let new = new_thesis(&dataset, 1);
    let begun = Instant::now();
    let written = one.core.datasets.create_thesis(&dataset, new.clone()).await.unwrap();
    assert!(begun.elapsed() >= RECEIPT_TIMEOUT, "the owner was asked first");
    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!((written.seq, &written.entry.id), (1, &thesis_event_id(&new.thesis.id)));
    let rows = crate::tables::unfinished::list_all(&one.core.shared.backend).await.unwrap();
    assert!(rows.iter().any(|row| row.dataset == dataset.to_string() && row.replica == one.core.shared.replica));
    // The owner finds it.
    let again = other.core.datasets.create_thesis(&dataset, new).await.unwrap();
    assert_eq!((again.seq, again.entry.id), (1, written.entry.id));
    one.kill();
    other.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_tokens_counts_come_from_its_owners_memory() {
    let backend = backend();
    let (one, other) = (start(backend.clone(), 1).await, start(backend.clone(), 2).await);
    linked(&[&one, &other]).await;
    let dataset = owned_by(&other);
    let view = dataset.counted_with();
    let now = one.core.shared.clock.now_ms();
    // All on one token, by three authors, one an hour.
    let thesis = |number: u32| {
        let mut new = new_thesis(&dataset, number * 2);
        new.thesis.created_at = now - i64::from(number) * HOUR_MS;
        new
    };
    let token = thesis(0).token.id;
    let theses = &one.core.shared.theses;
    for number in 0..12 {
        one.core.datasets.create_thesis(&dataset, thesis(number)).await.unwrap();
    }
    let count_at = async |core: &Arc<Core>| {
        let reader = core.shared.theses.reader(&view).await.unwrap();
        core.datasets.counts(&reader, &view, &token, now, DAY_MS).await.unwrap()
    };
    let count = async || count_at(&one.core).await;
    let by_rows = async || theses.counts(&view, &token, now, DAY_MS).await.unwrap();
    let counts = count().await;
    assert_eq!((counts.last_24h, counts.authors_24h), (12, 3));
    assert_eq!(counts, by_rows().await);
    // Only the check for few theses is read, however many there are.
    let is_cheap = async || {
        let before = backend.scans(&schema::THESIS_INDEX);
        assert!(theses.direct_reader().counts_of_few(&view, &token, now, DAY_MS, 4).await.unwrap().is_none());
        let of_few = backend.scans(&schema::THESIS_INDEX) - before;
        count().await;
        backend.scans(&schema::THESIS_INDEX) - before <= 2 * of_few
    };
    until("the theses are in memory", async || is_cheap().await).await;
    for number in 12..20 {
        // Through either core, and by one that is wrong in believing that it owns the log.
        let written = match number % 3 {
            0 => one.core.datasets.create_thesis(&dataset, thesis(number)).await,
            1 => other.core.datasets.create_thesis(&dataset, thesis(number)).await,
            _ => one.core.datasets.create_here(&dataset, thesis(number)).await,
        };
        written.unwrap();
        let counts = count().await;
        assert_eq!(counts.last_24h, i64::from(number) + 1);
        assert_eq!(counts, by_rows().await);
        assert_eq!(counts, count_at(&other.core).await);
    }
    until("more theses are in memory", async || is_cheap().await).await;
    other.kill();
    assert_eq!(count().await, by_rows().await);
    one.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_each_believe_to_own_a_log_lose_and_double_nothing() {
    let backend = backend();
    let (one, other) = (start(backend.clone(), 1).await, start(backend.clone(), 2).await);
    let dataset = Dataset::of_project("both");
    let writes = (0..60).map(|number| {
        // Each thesis at both at once, some again.
        let core = if number % 2 == 0 { &one.core } else { &other.core };
        core.datasets.create_here(&dataset, new_thesis(&dataset, number / 3))
    });
    let written = futures::future::try_join_all(writes).await.unwrap();
    let ids: std::collections::BTreeMap<String, u64> =
        written.iter().map(|sequenced| (sequenced.entry.id.clone(), sequenced.seq)).collect();
    assert_eq!(ids.len(), 20);
    assert!(written.iter().all(|sequenced| ids[&sequenced.entry.id] == sequenced.seq));
    one.kill();
    other.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_control_log_is_received() {
    let backend = backend();
    let (one, other) = (start(backend.clone(), 1).await, start(backend.clone(), 2).await);
    linked(&[&one, &other]).await;
    let before = other.core.shared.control.state().projects().count();
    let organization_id = one.core.shared.control.state().organizations().next().unwrap().id.clone();
    let request = v1::CreateProjectRequest { organization_id, name: "heard".to_owned() };
    create_project(&one.core, &Actor::operator(None), &request, None).await.unwrap();
    let mut changes = other.core.shared.control.changes();
    let received = async {
        while other.core.shared.control.state().projects().count() == before {
            changes.changed().await.unwrap();
        }
    };
    timeout(SOON, received).await.unwrap();
    one.kill();
    other.kill();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_core_that_finds_itself_at_anothers_address_has_no_connection() {
    let backend = backend();
    let subscriptions = Arc::new(AtomicUsize::new(0));
    let one = start_dialling(backend.clone(), 1, Some(dial_silent(&subscriptions))).await;
    let own = one.core.members.address();
    // Another core that says that it is reached where the first is.
    let members = Members::new(backend, Arc::new(SystemClock), "rep_other".to_owned(), own);
    let seen = async || {
        members.send_heartbeat().await.unwrap();
        one.core.members.others().borrow().iter().any(|other| other.replica == "rep_other" && other.owns)
    };
    until("it is seen", seen).await;
    let has_subscribed = async || {
        members.send_heartbeat().await.unwrap();
        assert!(!*one.core.peers.all_connected().borrow(), "it is connected to itself");
        subscriptions.load(Ordering::Relaxed) >= 4
    };
    until("it subscribes again", has_subscribed).await;
    // This core writes to every log, even if another core owns it.
    for number in 0..8 {
        let dataset = Dataset::of_project(&format!("own{number}"));
        assert!(one.core.datasets.owns(&dataset));
        one.core.datasets.create_thesis(&dataset, new_thesis(&dataset, 1)).await.unwrap();
    }
    one.kill();
}
