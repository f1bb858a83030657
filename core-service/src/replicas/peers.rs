//! The ways to the other cores: their news, and writes to the logs that they own.
//!
//! Ownership only saves work. It may be wrong at any moment: whoever appends does it on the condition of the log's head.

mod silence;
#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::StreamExt as _;
use parking_lot::Mutex;
use prost::Message as _;
use secrecy::SecretString;
use thesis_net::{
    clock::SharedClock,
    services::{self, PeerCore},
    tls::Authorities,
};
use thesis_proto::v1::{self, append_request::Command, append_response::Result as Answer, look_up_request::Thing};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::{Code, Request, Status, codegen::StdError};

use self::silence::Silence;
use super::members::{Members, Other, first_of};
use crate::domain::{
    derivation::Counts,
    entry::{Entry, SequencedEntry},
    row::NewThesis,
};

/// Longest wait until an owner says that it has received a command, or for its counts.
const RECEIPT: Duration = Duration::from_millis(500);
/// The pause before a core's news are asked for again.
const PAUSE: Duration = Duration::from_millis(250);
/// Longest wait for a core's first news.
const FIRST_NEWS: Duration = Duration::from_secs(3);

/// What is told of a core that beats and is not heard.
const UNHEARD: &str = "a core that beats is not reached, so its work is looked for in the store, which is slower: its \
    SVC_ADVERTISE_URL must lead to its SVC_INTERNAL_ADDR (SVC_GRPC_ADDR without one) from here, and SVC_CORE_CA_FILE \
    here must fit its certificate";

/// Longest time to take in what was looked up, beyond the look-up itself.
const TAKEN_IN: Duration = Duration::from_secs(5);

/// The way to a core at an address.
pub type Dial = Arc<dyn Fn(&str) -> Result<Arc<PeerCore>, StdError> + Send + Sync>;

/// Reaches cores by gRPC, with the service credential.
#[must_use]
pub fn over_grpc(authorities: Authorities, credential: SecretString, clock: SharedClock) -> Dial {
    Arc::new(move |address: &str| services::peer(address, &authorities, &credential, Arc::clone(&clock)))
}

/// Takes another core's news.
pub type Hear = Arc<dyn Fn(v1::NewsResponse) + Send + Sync>;

/// Another core.
struct Peer {
    replica: String,
    address: String,
    core: Arc<PeerCore>,
    /// Whether its news are heard.
    heard: AtomicBool,
    stop: CancellationToken,
}

impl Peer {
    /// Has the core write to a log that it owns.
    async fn write(&self, dataset: &str, command: Command) -> Result<Answer, Status> {
        let (core, dataset) = (self.replica.clone(), dataset.to_owned());
        let request = v1::AppendRequest { core, dataset, command: Some(command) };
        let received = async {
            let mut answers = self.core.append(Request::new(request)).await?.into_inner();
            answers.next().await.ok_or_else(broken)??;
            Ok::<_, Status>(answers)
        };
        let mut answers = timeout(RECEIPT, received).await.map_err(|_| late())??;
        // It is at work, and the request has a deadline of its own.
        answers.next().await.ok_or_else(broken)??.result.ok_or_else(broken)
    }

    fn failed(&self, dataset: &str, status: &Status) {
        let (owner, status) = (&self.address, status.message());
        tracing::debug!(dataset, owner, status, "the owner of a log did not do it; doing it here");
    }
}

/// The other cores.
pub struct Peers {
    members: Arc<Members>,
    dial: Dial,
    peers: Mutex<HashMap<String, Arc<Peer>>>,
    /// Whether the news of every other core are heard.
    all_connected: watch::Sender<bool>,
}

impl Peers {
    /// The other cores among the members.
    #[must_use]
    pub fn new(members: Arc<Members>, dial: Dial) -> Arc<Self> {
        Arc::new(Self { members, dial, peers: Mutex::default(), all_connected: watch::Sender::new(false) })
    }

    /// Whether the news of every other core that is known to live are heard. While they are not, and once more when they
    /// are heard again, what others do has to be looked for.
    #[must_use]
    pub fn all_connected(&self) -> watch::Receiver<bool> {
        self.all_connected.subscribe()
    }

    /// The other cores that may live.
    #[must_use]
    pub fn others(&self) -> watch::Receiver<Vec<Other>> {
        self.members.others()
    }

    /// Whether a core certainly owns nothing any more.
    #[must_use]
    pub fn is_dead(&self, replica: &str) -> bool {
        self.members.is_dead(replica)
    }

    /// Whether a log is this core's.
    #[must_use]
    pub fn owns(&self, dataset: &str) -> bool {
        self.owner(dataset).is_none()
    }

    /// Whether a log is this core's, whether there is a way to others or not. What only one core may do is done by the one
    /// that leads.
    #[must_use]
    pub fn leads(&self, dataset: &str) -> bool {
        self.members.is_alone()
            || self.members.has_looked() && self.leader(dataset).as_deref() == Some(self.members.replica())
    }

    /// The core that owns a log.
    fn leader(&self, dataset: &str) -> Option<String> {
        // A copy: a lock on it must not be held while another is taken.
        let others = self.members.others().borrow().clone();
        let owners = others.iter().filter(|other| other.owns).map(|other| other.replica.as_str());
        let own = self.members.replica();
        // A core that cannot show that it lives leaves the log to others.
        first_of(owners.chain(self.members.owns().then_some(own)), dataset).map(str::to_owned)
    }

    /// The way to the core that leads, if there is one.
    fn way_to_leader(&self, dataset: &str) -> Option<Arc<Peer>> {
        let leader = self.leader(dataset)?;
        self.peers.lock().get(&leader).cloned()
    }

    /// Has the upstream asked for something by the core that leads; none when that core gives no answer in time.
    pub async fn lookup(&self, dataset: &str, thing: Thing, patience: Duration) -> Option<v1::LookUpResponse> {
        let leader = self.way_to_leader(dataset)?;
        let request = v1::LookUpRequest { core: leader.replica.clone(), thing: Some(thing) };
        let answer = timeout(patience + TAKEN_IN, leader.core.look_up(Request::new(request))).await.ok()?;
        answer.map(tonic::Response::into_inner).inspect_err(|status| leader.failed(dataset, status)).ok()
    }

    /// The state of the feed at the core that leads; none when it gives no answer.
    pub async fn feed_status(&self, dataset: &str) -> Option<v1::IngestStatus> {
        let leader = self.way_to_leader(dataset)?;
        let request = v1::GetFeedStatusRequest { core: leader.replica.clone() };
        let answer = timeout(FIRST_NEWS, leader.core.get_feed_status(Request::new(request))).await.ok()?;
        answer.ok()?.into_inner().status
    }

    /// The other core that owns a log; none when it is this one, or when there is no way to it.
    fn owner(&self, dataset: &str) -> Option<Arc<Peer>> {
        if self.members.is_alone() {
            return None;
        }
        let owner = self.way_to_leader(dataset)?;
        // Without a way to it every write would wait for a receipt.
        owner.heard.load(Ordering::Relaxed).then_some(owner)
    }

    /// Has a thesis put into a log by the core that owns it. None when this core must do it: the log is its own, or the
    /// owner does not say in time that it received the thesis, or breaks off.
    pub async fn append(&self, dataset: &str, new: &NewThesis) -> Option<SequencedEntry> {
        let owner = self.owner(dataset)?;
        let result = owner.write(dataset, Command::Thesis(new.encode_to_vec().into())).await;
        let appended = result.and_then(|result| match result {
            Answer::Thesis(v1::LogEntry { seq, body }) => {
                let entry = Entry::decode(body).map_err(|error| Status::internal(error.to_string()))?;
                Ok(SequencedEntry { seq, entry })
            }
            Answer::Observations(_) => Err(broken()),
        });
        appended.inspect_err(|status| owner.failed(dataset, status)).ok()
    }

    /// Has observations taken in by the core that owns their log, which may refuse them. None when this core must do it,
    /// as for [`Self::append`].
    pub async fn ingest(&self, request: &v1::IngestRequest) -> Option<Result<v1::IngestResponse, Status>> {
        let owner = self.owner(&request.dataset)?;
        match owner.write(&request.dataset, Command::Observations(request.clone())).await {
            Ok(Answer::Observations(answer)) => Some(Ok(answer)),
            Err(status) if status.code() == Code::InvalidArgument => Some(Err(status)),
            Ok(Answer::Thesis(_)) => None,
            Err(status) => {
                owner.failed(&request.dataset, &status);
                None
            }
        }
    }

    /// Has the owner of a log count the theses on a token of the last day at `at`. None when this core must do it: the log
    /// is its own, or the owner does not answer in time, or cannot.
    pub async fn count(&self, dataset: &str, token: &str, at: i64) -> Option<Counts> {
        let owner = self.owner(dataset)?;
        let (core, token) = (owner.replica.clone(), token.to_owned());
        let request = v1::CountThesesRequest { core, dataset: dataset.to_owned(), token, at };
        let counted = timeout(RECEIPT, owner.core.count_theses(Request::new(request))).await;
        let counted = counted.unwrap_or_else(|_| Err(late())).and_then(|counted| {
            let counts = counted.into_inner().counts.map(Counts::decode).transpose();
            counts.map_err(|error| Status::internal(error.to_string()))
        });
        counted.inspect_err(|status| owner.failed(dataset, status)).ok().flatten()
    }

    /// Listens to every other core until stopped.
    pub async fn run(self: Arc<Self>, hear: Hear, stop: CancellationToken, tasks: TaskTracker) {
        if self.members.is_alone() {
            return;
        }
        if self.members.address().is_empty() {
            tracing::warn!("other cores cannot reach this one and look for its work: set SVC_ADVERTISE_URL");
        }
        let mut others = self.members.others();
        while stop.run_until_cancelled(others.changed()).await.is_some_and(|changed| changed.is_ok()) {
            let known = others.borrow_and_update().clone();
            self.settle(&known, &hear, &stop, &tasks);
        }
    }

    /// Begins to listen to new cores, and no longer listens to those that are gone.
    fn settle(self: &Arc<Self>, others: &[Other], hear: &Hear, stop: &CancellationToken, tasks: &TaskTracker) {
        let mut peers = self.peers.lock();
        let is_known = |replica: &String, peer: &Arc<Peer>| {
            others.iter().any(|other| other.replica == *replica && other.address == peer.address)
        };
        for (_, gone) in peers.extract_if(|replica, peer| !is_known(replica, peer)) {
            gone.stop.cancel();
        }
        for Other { replica, address, .. } in others {
            if peers.contains_key(replica) {
                continue;
            }
            let Ok(core) = (self.dial)(address) else { continue };
            let (address, heard, stop) = (address.clone(), AtomicBool::new(false), stop.child_token());
            let peer = Arc::new(Peer { replica: replica.clone(), address, core, heard, stop });
            tasks.spawn(Arc::clone(self).listen(Arc::clone(&peer), Arc::clone(hear)));
            peers.insert(replica.clone(), peer);
        }
        drop(peers);
        self.judge();
    }

    fn judge(&self) {
        let others = self.members.others().borrow().clone();
        let all = {
            let peers = self.peers.lock();
            let heard =
                |other: &Other| peers.get(&other.replica).is_some_and(|peer| peer.heard.load(Ordering::Relaxed));
            self.members.has_looked() && others.iter().all(heard)
        };
        self.all_connected.send_if_modified(|heard| std::mem::replace(heard, all) != all);
    }

    /// Listens to a core until it is gone.
    async fn listen(self: Arc<Self>, peer: Arc<Peer>, hear: Hear) {
        let listening = async {
            let mut silence = Silence::since(Instant::now());
            loop {
                let ended = self.hear(&peer, &hear).await;
                if peer.heard.swap(false, Ordering::Relaxed) {
                    silence = Silence::since(Instant::now());
                }
                self.judge();
                if let Err(status) = ended {
                    let (core, status) = (&peer.address, status.message());
                    tracing::debug!(core, status, "a core's news are not heard");
                    if silence.is_to_be_told(Instant::now()) {
                        tracing::warn!(core, status, "{UNHEARD}");
                    }
                }
                sleep(PAUSE).await;
            }
        };
        peer.stop.run_until_cancelled(listening).await;
    }

    async fn hear(&self, peer: &Peer, hear: &Hear) -> Result<(), Status> {
        let first = async {
            let mut news = peer.core.news(Request::new(v1::NewsRequest {})).await?.into_inner();
            let first = news.next().await.ok_or_else(broken)??;
            Ok::<_, Status>((first, news))
        };
        let (first, mut news) = timeout(FIRST_NEWS, first).await.map_err(|_| late())??;
        if first.core != peer.replica {
            // Perhaps this core itself, at an address that means something else to others.
            return Err(Status::failed_precondition("another core answers there"));
        }
        hear(first);
        peer.heard.store(true, Ordering::Relaxed);
        self.judge();
        while let Some(more) = news.next().await {
            hear(more?);
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
