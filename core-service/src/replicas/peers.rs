//! Connections to the other cores: their notifications, and writes to the logs that they own.
//!
//! Ownership only saves work. It may be wrong at any moment: every append is conditional on the log's head.
//!
//! The owner is chosen among the live cores by rendezvous hashing. If it does not confirm a command within 500 ms, the
//! core that has the command appends it itself, under the same ids. The owner of `live` also follows the upstream.
//!
//! Each core also creates deliveries for the others: those of the webhooks whose attempts it hands out.
//!
//! While another core is not connected, this core polls instead: positions of followed logs each second, the control
//! log ten times a second, marks of queues every two seconds.

mod reach;
mod silence;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use parking_lot::Mutex;
use prost::Message as _;
use secrecy::SecretString;
use thesis_net::{
    channel::CoreChannel,
    clock::SharedClock,
    services::{self, PeerCore},
    tls::Authorities,
};
use thesis_proto::v1::{
    self, append_request::Command, append_response::Result as AppendResult, look_up_request::Thing,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Code, Request, Status, codegen::StdError};

use self::silence::Silence;
use super::members::{Members, OtherCore, first_of};
use crate::domain::{
    derivation::Counts,
    entry::{Entry, SequencedEntry},
    row::NewThesis,
};

/// Time within which an owner confirms that it has received a command, or returns its counts.
const RECEIPT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit for a core to create some hundred deliveries.
const CREATION_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for which a core that did not create deliveries gets no more of them.
const CREATION_PAUSE: Duration = Duration::from_secs(10);
/// Pause before this core subscribes to a core again.
const RECONNECT_PAUSE: Duration = Duration::from_millis(250);
/// Time limit for the first notification of a core.
const FIRST_NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(3);

/// Warning about a core with heartbeats but without a connection.
const UNREACHABLE: &str = "a core that beats is not reached, so its work is looked for in the store, which is slower: \
    its SVC_ADVERTISE_URL must lead to its SVC_INTERNAL_ADDR (SVC_GRPC_ADDR without one) from here, and \
    SVC_CORE_CA_FILE here must fit its certificate";

/// Time limit to apply the response to a lookup, beyond the lookup itself.
const APPLY_TIMEOUT: Duration = Duration::from_secs(5);

pub type Dial = Arc<dyn Fn(&str) -> Result<Arc<PeerCore>, StdError> + Send + Sync>;

/// Reaches cores by gRPC, with the service credential.
pub fn over_grpc(authorities: Authorities, credential: SecretString, clock: SharedClock) -> Dial {
    Arc::new(move |address: &str| {
        let channel = CoreChannel::new(&[address.to_owned()], &authorities, Arc::clone(&clock))?;
        Ok(services::peer(channel, &credential)?)
    })
}

pub type OnNotification = Arc<dyn Fn(v1::NewsResponse) + Send + Sync>;

struct Peer {
    replica: String,
    address: String,
    core: Arc<PeerCore>,
    /// True while its notifications arrive.
    is_connected: AtomicBool,
    /// It gets no deliveries to create until then.
    paused_until: Mutex<Option<Instant>>,
    stop: CancellationToken,
}

impl Peer {
    /// Sends a command to a core for a log that it owns.
    async fn write(&self, dataset: &str, command: Command) -> Result<AppendResult, Status> {
        let (core, dataset) = (self.replica.clone(), dataset.to_owned());
        let request = v1::AppendRequest { core, dataset, command: Some(command) };
        let received = async {
            let mut answers = self.core.append(Request::new(request)).await?.into_inner();
            answers.next().await.ok_or_else(broken)??;
            Ok::<_, Status>(answers)
        };
        let mut answers = timeout(RECEIPT_TIMEOUT, received).await.map_err(|_| late())??;
        // The core works on it, and the request has its own deadline.
        answers.next().await.ok_or_else(broken)??.result.ok_or_else(broken)
    }

    fn failed(&self, dataset: &str, status: &Status) {
        let (owner, status) = (&self.address, status.message());
        tracing::debug!(dataset, owner, status, "the owner of a log did not do it; doing it here");
    }
}

pub struct Peers {
    members: Arc<Members>,
    dial: Dial,
    peers: Mutex<HashMap<String, Arc<Peer>>>,
    all_connected: watch::Sender<bool>,
    connections: AtomicU64,
}

impl Peers {
    pub fn new(members: Arc<Members>, dial: Dial) -> Arc<Self> {
        let (peers, all_connected, connections) = (Mutex::default(), watch::Sender::new(false), AtomicU64::new(0));
        Arc::new(Self { members, dial, peers, all_connected, connections })
    }

    /// Number of connections to other cores so far. Notifications before a new connection are lost, so the core then
    /// reads its logs once.
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// True while the notifications of every other live core arrive. While they do not, and once more when they arrive
    /// again, this core must read the changes of others from the store.
    pub fn all_connected(&self) -> watch::Receiver<bool> {
        self.all_connected.subscribe()
    }

    pub fn others(&self) -> watch::Receiver<Vec<OtherCore>> {
        self.members.others()
    }

    /// True if a core certainly owns nothing.
    pub fn is_dead(&self, replica: &str) -> bool {
        self.members.is_dead(replica)
    }

    pub fn owns(&self, dataset: &str) -> bool {
        self.owner(dataset).is_none()
    }

    /// True if this core leads a log, with or without connections to others. The leading core does the work that only
    /// one core may do.
    pub fn leads(&self, dataset: &str) -> bool {
        self.members.is_alone()
            || self.members.has_read_beats() && self.leader(dataset).as_deref() == Some(self.members.replica())
    }

    /// The core that owns a log.
    fn leader(&self, dataset: &str) -> Option<String> {
        // This is a copy: its lock must not be held while another is taken.
        let others = self.members.others().borrow().clone();
        let owners = others.iter().filter(|other| other.owns).map(|other| other.replica.as_str());
        let own = self.members.replica();
        // A core without a recent heartbeat leaves the log to others.
        first_of(owners.chain(self.members.owns().then_some(own)), dataset).map(str::to_owned)
    }

    /// The connection to the core that leads, if there is one.
    fn leading_peer(&self, dataset: &str) -> Option<Arc<Peer>> {
        let leader = self.leader(dataset)?;
        self.peers.lock().get(&leader).cloned()
    }

    /// Looks an object up through the leading core; none when that core does not answer in time.
    pub async fn lookup(&self, dataset: &str, thing: Thing, lookup_timeout: Duration) -> Option<v1::LookUpResponse> {
        let leader = self.leading_peer(dataset)?;
        let request = v1::LookUpRequest { core: leader.replica.clone(), thing: Some(thing) };
        let answer = timeout(lookup_timeout + APPLY_TIMEOUT, leader.core.look_up(Request::new(request))).await.ok()?;
        answer.map(tonic::Response::into_inner).inspect_err(|status| leader.failed(dataset, status)).ok()
    }

    /// The state of the feed at the leading core; none when it does not answer.
    pub async fn feed_status(&self, dataset: &str) -> Option<v1::IngestStatus> {
        let leader = self.leading_peer(dataset)?;
        let request = v1::GetFeedStatusRequest { core: leader.replica.clone() };
        let answer =
            timeout(FIRST_NOTIFICATION_TIMEOUT, leader.core.get_feed_status(Request::new(request))).await.ok()?;
        answer.ok()?.into_inner().status
    }

    /// The other core that owns a log; none when this core owns it, or has no connection to the owner.
    fn owner(&self, dataset: &str) -> Option<Arc<Peer>> {
        if self.members.is_alone() {
            return None;
        }
        let owner = self.leading_peer(dataset)?;
        // Without a connection every write would wait for a receipt.
        owner.is_connected.load(Ordering::Relaxed).then_some(owner)
    }

    /// Sends a thesis to the core that owns the log. None when this core must append it: this core owns the log, or the
    /// owner does not confirm the receipt in time, or the connection breaks.
    pub async fn append(&self, dataset: &str, new: &NewThesis) -> Option<SequencedEntry> {
        let owner = self.owner(dataset)?;
        let result = owner.write(dataset, Command::Thesis(new.encode_to_vec().into())).await;
        let appended = result.and_then(|result| match result {
            AppendResult::Thesis(v1::LogEntry { seq, body }) => {
                let entry = Entry::from_stored(seq, body).map_err(|error| Status::internal(error.to_string()))?;
                Ok(SequencedEntry { seq, entry })
            }
            AppendResult::Observations(_) | AppendResult::IsClosed(_) => Err(broken()),
        });
        appended.inspect_err(|status| owner.failed(dataset, status)).ok()
    }

    /// Sends observations to the core that owns their log, which may refuse them. None when this core must apply them,
    /// as for [`Self::append`].
    pub async fn ingest(&self, request: &v1::IngestRequest) -> Option<Result<v1::IngestResponse, Status>> {
        let owner = self.owner(&request.dataset)?;
        match owner.write(&request.dataset, Command::Observations(request.clone())).await {
            Ok(AppendResult::Observations(answer)) => Some(Ok(answer)),
            Err(status) if status.code() == Code::InvalidArgument => Some(Err(status)),
            Ok(AppendResult::Thesis(_) | AppendResult::IsClosed(_)) => None,
            Err(status) => {
                owner.failed(&request.dataset, &status);
                None
            }
        }
    }

    /// Requests the owner of a log to close a time. Returns false if this core must do it, as for [`Self::append`].
    pub async fn close_time(&self, dataset: &str, at: i64) -> bool {
        let Some(owner) = self.owner(dataset) else { return false };
        let closed = owner.write(dataset, Command::ClosedTime(at)).await;
        closed.inspect_err(|status| owner.failed(dataset, status)).is_ok()
    }

    /// Requests the counts of a token's theses of the last day at `at` from the owner of the log. None when this core
    /// must count: it owns the log, or the owner does not answer in time, or cannot.
    pub async fn count(&self, dataset: &str, token: &str, at: i64) -> Option<Counts> {
        let owner = self.owner(dataset)?;
        let (core, token) = (owner.replica.clone(), token.to_owned());
        let request = v1::CountThesesRequest { core, dataset: dataset.to_owned(), token, at };
        let counted = timeout(RECEIPT_TIMEOUT, owner.core.count_theses(Request::new(request))).await;
        let counted = counted.unwrap_or_else(|_| Err(late())).and_then(|counted| {
            let counts = counted.into_inner().counts.map(Counts::decode).transpose();
            counts.map_err(|error| Status::internal(error.to_string()))
        });
        counted.inspect_err(|status| owner.failed(dataset, status)).ok().flatten()
    }

    /// The core of each shard of webhooks, by the number of the shard; empty while no core hands out attempts.
    pub fn shard_cores(&self) -> Arc<[String]> {
        self.members.shard_cores()
    }

    /// True if another core takes deliveries to create: it is connected, and has not failed lately.
    pub fn may_create_deliveries(&self, core: &str) -> bool {
        let peer = self.peers.lock().get(core).cloned();
        peer.is_some_and(|peer| {
            let is_paused = peer.paused_until.lock().is_some_and(|until| Instant::now() < until);
            peer.is_connected.load(Ordering::Relaxed) && !is_paused
        })
    }

    /// Lets another core create deliveries. False when this core must create them: the other one does not confirm them
    /// in time, or does not know this call.
    pub async fn create_deliveries(&self, request: v1::CreateDeliveriesRequest) -> bool {
        let Some(peer) = self.peers.lock().get(&request.core).cloned() else { return false };
        let created = timeout(CREATION_TIMEOUT, peer.core.create_deliveries(Request::new(request))).await;
        let created = created.unwrap_or_else(|_| Err(late()));
        if let Err(status) = &created {
            let (core, status) = (&peer.address, status.message());
            tracing::debug!(core, status, "a core did not create deliveries; creating them here");
            *peer.paused_until.lock() = Some(Instant::now() + CREATION_PAUSE);
        }
        created.is_ok()
    }

    /// Receives the notifications of every other core until stopped.
    pub async fn run(self: Arc<Self>, on_notification: OnNotification, stop: CancellationToken, tasks: TaskTracker) {
        if self.members.is_alone() {
            return;
        }
        if self.members.address().is_empty() {
            tracing::warn!("other cores cannot reach this one and look for its work: set SVC_ADVERTISE_URL");
        }
        let mut others = self.members.others();
        while stop.run_until_cancelled(others.changed()).await.is_some_and(|changed| changed.is_ok()) {
            let known = others.borrow_and_update().clone();
            self.update_peers(&known, &on_notification, &stop, &tasks);
        }
    }

    /// Subscribes to new cores, and ends the subscriptions to cores that are gone.
    fn update_peers(
        self: &Arc<Self>,
        others: &[OtherCore],
        on_notification: &OnNotification,
        stop: &CancellationToken,
        tasks: &TaskTracker,
    ) {
        let mut peers = self.peers.lock();
        let is_known = |replica: &String, peer: &Arc<Peer>| {
            others.iter().any(|other| other.replica == *replica && other.address == peer.address)
        };
        for (_, gone) in peers.extract_if(|replica, peer| !is_known(replica, peer)) {
            gone.stop.cancel();
        }
        for OtherCore { replica, address, .. } in others {
            if peers.contains_key(replica) {
                continue;
            }
            let Ok(core) = (self.dial)(address) else { continue };
            let (address, is_connected, stop) = (address.clone(), AtomicBool::new(false), stop.child_token());
            let (replica_id, paused_until) = (replica.clone(), Mutex::default());
            let peer = Arc::new(Peer { replica: replica_id, address, core, is_connected, paused_until, stop });
            tasks.spawn(Arc::clone(self).listen(Arc::clone(&peer), Arc::clone(on_notification)));
            peers.insert(replica.clone(), peer);
        }
        drop(peers);
        self.publish_connected();
    }

    fn publish_connected(&self) {
        let others = self.members.others().borrow().clone();
        let all = {
            let peers = self.peers.lock();
            let is_connected = |other: &OtherCore| {
                peers.get(&other.replica).is_some_and(|peer| peer.is_connected.load(Ordering::Relaxed))
            };
            self.members.has_read_beats() && others.iter().all(is_connected)
        };
        self.all_connected.send_if_modified(|connected| std::mem::replace(connected, all) != all);
    }

    /// Receives the notifications of a core until it is gone.
    async fn listen(self: Arc<Self>, peer: Arc<Peer>, on_notification: OnNotification) {
        let listening = async {
            let mut silence = Silence::since(Instant::now());
            loop {
                let ended = self.receive(&peer, &on_notification).await;
                if peer.is_connected.swap(false, Ordering::Relaxed) {
                    silence = Silence::since(Instant::now());
                }
                self.publish_connected();
                if let Err(status) = ended {
                    let (core, status) = (&peer.address, status.message());
                    tracing::debug!(core, status, "the notifications of a core do not arrive");
                    if silence.take_warning(Instant::now()) {
                        tracing::warn!(core, status, "{UNREACHABLE}");
                    }
                }
                sleep(RECONNECT_PAUSE).await;
            }
        };
        peer.stop.run_until_cancelled(listening).await;
    }

    async fn receive(&self, peer: &Peer, on_notification: &OnNotification) -> Result<(), Status> {
        let first = async {
            let mut notifications = peer.core.news(Request::new(v1::NewsRequest {})).await?.into_inner();
            let first = notifications.next().await.ok_or_else(broken)??;
            Ok::<_, Status>((first, notifications))
        };
        let (first, mut notifications) = timeout(FIRST_NOTIFICATION_TIMEOUT, first).await.map_err(|_| late())??;
        if first.core != peer.replica {
            // The address may lead to this core itself, and elsewhere to another one.
            return Err(Status::failed_precondition("another core answers there"));
        }
        on_notification(first);
        self.connections.fetch_add(1, Ordering::AcqRel);
        peer.is_connected.store(true, Ordering::Relaxed);
        self.publish_connected();
        while let Some(more) = notifications.next().await {
            on_notification(more?);
        }
        Ok(())
    }
}

fn late() -> Status {
    Status::deadline_exceeded("no word in time")
}

fn broken() -> Status {
    Status::unavailable("it broke off")
}
