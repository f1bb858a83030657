//! Links between the cores of several worlds, without sockets. They fail in the same ways as links between processes.

use std::{
    collections::HashMap,
    future::{pending, ready},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use thesis_net::services::{PeerCore, Stream};
use thesis_proto::v1::{self, peer_service_server::PeerService};
use tokio::time::timeout;
use tonic::{Request, Response, Status, async_trait};

use super::{requests::service, world_store::Dice};
use crate::{grpc::Api, replicas::peers::Dial, service::Core, tests::faulty::Process};

/// A core and its process.
type Running = (Arc<Core>, Arc<Process>);

/// The running cores, and what happens between them.
pub(super) struct Links {
    /// The cores and their processes, by the address at which the others reach them.
    cores: Mutex<HashMap<String, Running>>,
    /// None once everything works.
    dice: Mutex<Option<Dice>>,
    /// Commands that another core has carried out and answered.
    forwarded: AtomicUsize,
}

/// A fault of a command.
enum CommandFate {
    Passes,
    Refused,
    /// No receipt comes. The command may have arrived all the same.
    Silent {
        arrives: bool,
    },
    /// The link breaks after the receipt. The owner may go on.
    BreaksOff {
        goes_on: bool,
    },
    Twice,
}

impl Links {
    pub(super) fn new(dice: Dice) -> Arc<Self> {
        let dice = Mutex::new(Some(dice));
        Arc::new(Self { cores: Mutex::default(), dice, forwarded: AtomicUsize::new(0) })
    }

    /// A core can be reached.
    pub(super) fn enter(&self, address: &str, core: &Arc<Core>, process: &Arc<Process>) {
        self.cores.lock().insert(address.to_owned(), (Arc::clone(core), Arc::clone(process)));
    }

    /// The core at an address has ended.
    pub(super) fn leave(&self, address: &str) {
        self.cores.lock().remove(address);
    }

    /// Ends all faults.
    pub(super) fn calm(&self) {
        *self.dice.lock() = None;
    }

    /// Returns the number of commands that another core has carried out and answered.
    pub(super) fn forwarded(&self) -> usize {
        self.forwarded.load(Ordering::Relaxed)
    }

    /// How a core reaches the others.
    pub(super) fn dial(self: &Arc<Self>) -> Dial {
        let links = Arc::clone(self);
        Arc::new(move |address: &str| {
            let link = Link { links: Arc::clone(&links), address: address.to_owned() };
            Ok(Arc::new(link) as Arc<PeerCore>)
        })
    }

    /// One of `0..below`; none once everything works.
    fn roll(&self, below: usize) -> Option<usize> {
        self.dice.lock().as_mut().map(|dice| dice.roll(below))
    }

    fn fate(&self) -> CommandFate {
        match self.roll(18) {
            Some(0) => CommandFate::Refused,
            Some(1) => CommandFate::Silent { arrives: false },
            Some(2) => CommandFate::Silent { arrives: true },
            Some(3) => CommandFate::BreaksOff { goes_on: true },
            Some(4 | 5) => CommandFate::BreaksOff { goes_on: false },
            Some(6) => CommandFate::Twice,
            _ => CommandFate::Passes,
        }
    }

    fn far_end(&self, address: &str) -> Result<FarEnd, Status> {
        let cores = self.cores.lock();
        let (core, process) = cores.get(address).filter(|(_, process)| process.ended().is_none()).ok_or_else(broken)?;
        Ok(FarEnd { api: Api::new(core), process: Arc::clone(process) })
    }
}

fn broken() -> Status {
    Status::unavailable("the link is broken")
}

/// The core that a link leads to.
struct FarEnd {
    api: Api,
    process: Arc<Process>,
}

impl FarEnd {
    /// Passes a command to the core, which works while its responses are read.
    async fn take(&self, command: v1::AppendRequest) -> Result<Stream<v1::AppendResponse>, Status> {
        let answers = self.api.append(service(command)).await?.into_inner();
        let process = Arc::clone(&self.process);
        // No answer comes from a process that has ended.
        Ok(answers.map(move |answer| if process.ended().is_some() { Err(broken()) } else { answer }).boxed())
    }
}

/// Lets a core continue although its caller is gone.
fn go_on(answers: Stream<v1::AppendResponse>) {
    tokio::spawn(answers.for_each(|_| ready(())));
}

/// The way from one core to another.
struct Link {
    links: Arc<Links>,
    address: String,
}

#[async_trait]
impl PeerService for Link {
    type AppendStream = Stream<v1::AppendResponse>;
    type CopyShardStream = Stream<v1::CopyShardResponse>;
    type NewsStream = Stream<v1::NewsResponse>;

    async fn append(&self, request: Request<v1::AppendRequest>) -> Result<Response<Self::AppendStream>, Status> {
        let owner = self.links.far_end(&self.address)?;
        let command = request.into_inner();
        match self.links.fate() {
            CommandFate::Passes => {}
            CommandFate::Refused => return Err(broken()),
            CommandFate::Silent { arrives } => {
                if arrives {
                    go_on(owner.take(command).await?);
                }
                return pending().await;
            }
            CommandFate::BreaksOff { goes_on } => {
                let mut answers = owner.take(command).await?;
                let receipt = answers.next().await.ok_or_else(broken)?;
                if goes_on {
                    go_on(answers);
                } else if let Some(ms @ 1..) = self.links.roll(4) {
                    // The command has started, and may have ended.
                    drop(timeout(Duration::from_millis(ms as u64 - 1), answers.next()).await);
                }
                return Ok(Response::new(stream::iter([receipt, Err(broken())]).boxed()));
            }
            CommandFate::Twice => go_on(owner.take(command.clone()).await?),
        }
        let links = Arc::clone(&self.links);
        let answers = owner.take(command).await?.inspect(move |answer| {
            if matches!(answer, Ok(v1::AppendResponse { result: Some(_) })) {
                links.forwarded.fetch_add(1, Ordering::Relaxed);
            }
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn look_up(&self, request: Request<v1::LookUpRequest>) -> Result<Response<v1::LookUpResponse>, Status> {
        self.links.far_end(&self.address)?.api.look_up(service(request.into_inner())).await
    }

    async fn report_process(
        &self,
        request: Request<v1::ReportProcessRequest>,
    ) -> Result<Response<v1::ReportProcessResponse>, Status> {
        self.links.far_end(&self.address)?.api.report_process(service(request.into_inner())).await
    }

    async fn get_feed_status(
        &self,
        request: Request<v1::GetFeedStatusRequest>,
    ) -> Result<Response<v1::GetFeedStatusResponse>, Status> {
        self.links.far_end(&self.address)?.api.get_feed_status(service(request.into_inner())).await
    }

    async fn count_theses(
        &self,
        request: Request<v1::CountThesesRequest>,
    ) -> Result<Response<v1::CountThesesResponse>, Status> {
        let owner = self.links.far_end(&self.address)?;
        if self.links.roll(4) == Some(0) {
            return Err(broken());
        }
        let counted = owner.api.count_theses(service(request.into_inner())).await;
        if owner.process.ended().is_some() { Err(broken()) } else { counted }
    }

    async fn create_deliveries(
        &self,
        request: Request<v1::CreateDeliveriesRequest>,
    ) -> Result<Response<v1::CreateDeliveriesResponse>, Status> {
        let other = self.links.far_end(&self.address)?;
        let fate = self.links.roll(4);
        if fate == Some(0) {
            return Err(broken());
        }
        let created = other.api.create_deliveries(service(request.into_inner())).await;
        // The response may be lost although the deliveries exist.
        if fate == Some(1) || other.process.ended().is_some() { Err(broken()) } else { created }
    }

    async fn copy_shard(
        &self,
        request: Request<v1::CopyShardRequest>,
    ) -> Result<Response<Self::CopyShardStream>, Status> {
        self.links.far_end(&self.address)?.api.copy_shard(service(request.into_inner())).await
    }

    async fn search_months(
        &self,
        request: Request<v1::SearchMonthsRequest>,
    ) -> Result<Response<v1::SearchMonthsResponse>, Status> {
        self.links.far_end(&self.address)?.api.search_months(service(request.into_inner())).await
    }

    async fn news(&self, _: Request<v1::NewsRequest>) -> Result<Response<Self::NewsStream>, Status> {
        let FarEnd { api, process } = self.links.far_end(&self.address)?;
        if self.links.roll(8) == Some(0) {
            return Err(broken());
        }
        let news = api.news(service(v1::NewsRequest {})).await?.into_inner();
        let links = Arc::clone(&self.links);
        let until_broken = news.take_while(move |_| ready(process.ended().is_none() && links.roll(40) != Some(0)));
        Ok(Response::new(until_broken.boxed()))
    }
}
