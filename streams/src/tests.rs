//! Streams over a core whose log grows as a test says.

mod cursors;
mod erased;
mod forgotten;
mod joining;
mod replays;
mod sessions;

use std::{
    collections::HashMap,
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering},
    },
};

use futures::{
    StreamExt as _,
    future::ready,
    stream::{once, select_all, unfold},
};
use parking_lot::Mutex;
use thesis_net::{
    clock::{IdSource, SharedIdSource},
    services::{Stream, Streams},
};
use thesis_proto::{
    filter::CompiledFilter,
    time::from_millis,
    v1::{self, stream_service_server::StreamService},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, async_trait};

use crate::{Hub, OpenStream, OpenedStream, Subscription};

/// An event about one of a few tokens, or an entry that is no event.
type Written = Option<&'static str>;

pub(super) const TOKENS: [&str; 3] = ["$A", "$B", "$C"];

/// The time of an entry in milliseconds: each comes a second after the one before.
pub(super) fn time_of(position: u64) -> i64 {
    position.cast_signed() * 1_000
}

pub(super) fn event(position: u64, symbol: &str) -> v1::Event {
    let token = Some(v1::TokenRef { symbol: symbol.to_owned(), ..v1::TokenRef::default() });
    let data = v1::ThesisCreatedData { thesis_id: position.to_string(), token, ..v1::ThesisCreatedData::default() };
    v1::Event {
        id: format!("evt_{position}"),
        r#type: v1::EventType::ThesisCreated.into(),
        created_at: Some(from_millis(time_of(position))),
        data: Some(v1::event::Data::ThesisCreated(data)),
        ..v1::Event::default()
    }
}

/// A dataset's log; its first entry is at position 1.
pub(super) struct Log {
    entries: Mutex<Vec<Written>>,
    head: watch::Sender<u64>,
    /// The position up to which a text may have been erased.
    pub(super) erased: AtomicU64,
}

impl Default for Log {
    fn default() -> Self {
        Self { entries: Mutex::default(), head: watch::Sender::new(0), erased: AtomicU64::default() }
    }
}

impl Log {
    pub(super) fn append(&self, entries: &[Written]) {
        let mut all = self.entries.lock();
        all.extend(entries);
        self.head.send_replace(all.len() as u64);
    }

    pub(super) fn head(&self) -> u64 {
        *self.head.borrow()
    }

    /// The positions of the events after a position that pass a filter.
    pub(super) fn after(&self, after: u64, filter: &CompiledFilter) -> Vec<u64> {
        let entries = self.entries.lock();
        let events = (1..).zip(entries.iter()).filter(|(position, _)| *position > after);
        let passing = events.filter_map(|(position, written)| Some((position, event(position, (*written)?))));
        passing.filter(|(_, event)| filter.matches(event)).map(|(position, _)| position).collect()
    }

    fn page(&self, after: u64, max: u64, filter: &CompiledFilter) -> (Vec<v1::TailEvent>, u64) {
        let upto = self.head().min(after + max);
        let entries = self.entries.lock();
        let symbol = |position: u64| entries[usize::try_from(position).unwrap() - 1];
        let events = (after + 1..=upto).filter_map(|position| Some((position, event(position, symbol(position)?))));
        let passing = events.filter(|(_, event)| filter.matches(event));
        (passing.map(|(position, event)| v1::TailEvent { position, event: Some(event) }).collect(), upto)
    }
}

/// A core whose streams are in the hands of a test.
pub(super) struct FakeCore {
    logs: HashMap<String, Arc<Log>>,
    /// Maximum entries of a page.
    page: u64,
    /// Number of messages after which a call of `Tail` breaks.
    breaks_after: usize,
    /// The position of the entry whose message gets lost on its way, the first time; 0 for none.
    pub(super) loses: Arc<AtomicU64>,
    pub(super) tails: AtomicUsize,
    pub(super) reads: AtomicUsize,
    /// The ends of the present session's streams.
    pub(super) ends: Mutex<Option<mpsc::UnboundedSender<Result<v1::EndingsResponse, Status>>>>,
    pub(super) closed: watch::Sender<Vec<u64>>,
}

impl FakeCore {
    pub(super) fn new(datasets: &[&str], page: u64, breaks_after: usize) -> Arc<Self> {
        Arc::new(Self {
            logs: datasets.iter().map(|name| ((*name).to_owned(), Arc::default())).collect(),
            page,
            breaks_after,
            loses: Arc::default(),
            tails: AtomicUsize::default(),
            reads: AtomicUsize::default(),
            ends: Mutex::default(),
            closed: watch::Sender::default(),
        })
    }

    pub(super) fn log(&self, dataset: &str) -> &Arc<Log> {
        &self.logs[dataset]
    }

    /// A hub over this core with small rings.
    pub(super) fn hub(self: &Arc<Self>, shutdown: CancellationToken) -> Arc<Hub> {
        let core: Arc<Streams> = Arc::clone(self) as _;
        let ids: SharedIdSource = Arc::new(Counting::default());
        Hub::with_rings(&[Arc::clone(&core)], &core, |event| event.id.clone().into(), &ids, shutdown, 8)
    }

    pub(super) fn end(&self, stream: u64, reason: v1::StreamEndReason) {
        let ends = vec![v1::StreamEnd { stream, reason: reason.into() }];
        self.ends.lock().as_ref().unwrap().send(Ok(v1::EndingsResponse { ends })).unwrap();
    }
}

#[derive(Default)]
struct Counting(AtomicU8);

impl IdSource for Counting {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(self.0.fetch_add(1, Ordering::Relaxed));
    }
}

#[async_trait]
impl StreamService for FakeCore {
    async fn open(&self, request: Request<v1::OpenRequest>) -> Result<Response<v1::OpenResponse>, Status> {
        // The cursor of these tests is one position for every dataset.
        let after: Option<u64> = request.get_ref().cursor.as_ref().and_then(|cursor| cursor.parse().ok());
        let mut names: Vec<&String> = self.logs.keys().collect();
        names.sort();
        let place = |position: &dyn Fn(&Log) -> u64| -> Vec<v1::DatasetPosition> {
            let named = names.iter();
            named
                .map(|name| v1::DatasetPosition { dataset: (*name).clone(), position: position(&self.logs[*name]) })
                .collect()
        };
        let v1::OpenRequest { from, to, speed, .. } = request.get_ref();
        let after = after.or_else(|| from.as_ref().map(|from| from.seconds.unsigned_abs() - 1));
        let positions = place(&|log| after.unwrap_or(u64::MAX).min(log.head()));
        let live = place(&Log::head);
        let ends = to.iter().flat_map(|to| live.iter().map(move |live| live.position.min(to.seconds.unsigned_abs())));
        let replay = from.as_ref().map(|_| v1::StreamReplay {
            start: after.map(|after| from_millis(time_of(after))),
            opened_at: live.first().map(|live| from_millis(time_of(live.position))),
            ends: ends.collect(),
            is_complete: false,
            speed: *speed,
        });
        Ok(Response::new(v1::OpenResponse { positions, live, replay, ..v1::OpenResponse::default() }))
    }

    type EndingsStream = Stream<v1::EndingsResponse>;

    async fn endings(&self, _: Request<v1::EndingsRequest>) -> Result<Response<Self::EndingsStream>, Status> {
        let (sender, mut receiver) = mpsc::unbounded_channel();
        sender.send(Ok(v1::EndingsResponse::default())).unwrap();
        *self.ends.lock() = Some(sender);
        Ok(Response::new(futures::stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()))
    }

    async fn close(&self, request: Request<v1::CloseRequest>) -> Result<Response<v1::CloseResponse>, Status> {
        self.closed.send_modify(|closed| closed.extend(request.into_inner().streams));
        Ok(Response::new(v1::CloseResponse {}))
    }

    type TailStream = Stream<v1::TailResponse>;

    async fn tail(&self, request: Request<v1::TailRequest>) -> Result<Response<Self::TailStream>, Status> {
        self.tails.fetch_add(1, Ordering::Relaxed);
        let page = self.page;
        let tails = request.into_inner().after.into_iter().map(|from| {
            let log = Arc::clone(&self.logs[&from.dataset]);
            let start = (Arc::clone(&log), log.head.subscribe(), from);
            unfold(start, move |(log, mut head, mut from)| async move {
                drop(head.wait_for(|head| *head > from.position).await.unwrap());
                let (events, position) = log.page(from.position, page, &CompiledFilter::default());
                let after = std::mem::replace(&mut from.position, position);
                let erased = log.erased.load(Ordering::Relaxed);
                let dataset = from.dataset.clone();
                let message = v1::TailResponse { dataset, events, position, after, erased };
                Some((Ok(message), (log, head, from)))
            })
            .boxed()
        });
        let loses = Arc::clone(&self.loses);
        let arriving = select_all(tails).filter(move |message: &Result<v1::TailResponse, Status>| {
            let lost = loses.load(Ordering::Relaxed);
            let is_lost = message.as_ref().is_ok_and(|page| page.after < lost && lost <= page.position);
            if is_lost {
                loses.store(0, Ordering::Relaxed);
            }
            ready(!is_lost)
        });
        let broken = once(async { Err(Status::unavailable("the core went away")) });
        Ok(Response::new(arriving.take(self.breaks_after).chain(broken).boxed()))
    }

    async fn read(&self, request: Request<v1::ReadRequest>) -> Result<Response<v1::ReadResponse>, Status> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let v1::ReadRequest { dataset, after, types, filters } = request.into_inner();
        assert!(types.is_empty());
        let filter = CompiledFilter::new(&[], filters.as_ref()).unwrap();
        let (events, position) = self.logs[&dataset].page(after, self.page, &filter);
        Ok(Response::new(v1::ReadResponse { events, position }))
    }

    async fn read_sandbox(
        &self,
        _: Request<v1::ReadSandboxRequest>,
    ) -> Result<Response<v1::ReadSandboxResponse>, Status> {
        Err(Status::unimplemented("the stream engine does not read the sandbox"))
    }
}

/// A client: its stream, its one subscription, and the events that it got.
pub(super) struct Client {
    pub(super) stream: OpenStream,
    subscription: Subscription,
    pub(super) got: Vec<u64>,
}

pub(super) fn filter(tokens: &[&str]) -> (CompiledFilter, v1::EventFilters) {
    let token = tokens.iter().map(ToString::to_string).collect();
    let filters = v1::EventFilters { token, ..v1::EventFilters::default() };
    (CompiledFilter::new(&[], Some(&filters)).unwrap(), filters)
}

impl Client {
    pub(super) async fn open(hub: &Hub, after: Option<u64>, tokens: &[&str]) -> Self {
        let cursor = after.map(|after| after.to_string());
        Self::request(hub, v1::OpenRequest { cursor, ..v1::OpenRequest::default() }, tokens).await
    }

    /// A client that opens a stream by this request.
    pub(super) async fn request(hub: &Hub, request: v1::OpenRequest, tokens: &[&str]) -> Self {
        let (opened, stream) = hub.open("sse", Request::new(request)).await.unwrap();
        Self::follow(hub, stream, &opened, tokens)
    }

    /// A client whose stream is open already, and begins here.
    pub(super) fn follow(hub: &Hub, stream: OpenStream, opened: &OpenedStream, tokens: &[&str]) -> Self {
        let (_, filters) = filter(tokens);
        let subscription = hub.follow(&stream, opened, &[], Some(&filters)).unwrap();
        Self { stream, subscription, got: Vec::new() }
    }

    /// Takes the events that are there, up to this number.
    pub(super) fn read(&mut self, events: usize) {
        let enough = self.got.len() + events;
        let got = &mut self.got;
        self.subscription.read(|_, entry| {
            got.push(entry.position);
            got.len() < enough
        });
    }

    pub(super) async fn more(&mut self) -> Result<(), Status> {
        poll_fn(|context| {
            self.stream.register(context);
            self.subscription.poll_more(context)
        })
        .await
    }

    /// Reads until nothing is left of its datasets.
    pub(super) async fn drain(&mut self) {
        loop {
            self.read(usize::MAX / 2);
            if self.subscription.behind() == 0 {
                return;
            }
            self.more().await.unwrap();
        }
    }
}
