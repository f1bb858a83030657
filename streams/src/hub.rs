//! The entry point: opens streams, and adds their subscriptions.

use std::{
    sync::{
        Arc, Once,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::future::select_all;
use thesis_net::{clock::SharedIdSource, services::Streams};
use thesis_proto::{error::FieldError, filter::CompiledFilter, v1};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Response, Status, metadata::MetadataMap};

use crate::{
    follower::{Follower, Shared},
    link::{Link, OpenStream, ReplaySlot},
    metrics::GAPS,
    pages::{Pages, Wanted},
    replay::{Replay, SlotGuard},
    ring::{MAX_ENTRIES, Render},
    subscription::Subscription,
    tails::Tails,
};

/// Timeout for a core at which a stream can be opened.
const LINK_TIMEOUT: Duration = Duration::from_secs(3);

/// The parts that all open streams share.
pub struct Hub {
    links: Vec<Arc<Link>>,
    tails: Arc<Tails>,
    pages: Arc<Pages>,
    next: AtomicUsize,
    started: Once,
    shutdown: CancellationToken,
}

/// Core's response to an opening.
pub struct OpenedStream {
    /// The metadata of the response.
    pub metadata: MetadataMap,
    /// The positions at which the stream begins.
    pub begin: v1::OpenResponse,
    /// The slot of its replay at core.
    pub(crate) replay: Option<SlotGuard>,
}

impl OpenedStream {
    /// Reads core's response. Fails if the request was for a replay and the core has an earlier version without
    /// replays.
    fn new(response: Response<v1::OpenResponse>, replay: Option<ReplaySlot>) -> Result<Self, Status> {
        let (metadata, begin, _) = response.into_parts();
        if replay.is_some() && begin.replay.is_none() {
            return Err(Status::unavailable("this core does not replay events yet"));
        }
        let replay = replay.map(|slot| Arc::new(slot) as SlotGuard);
        Ok(Self { metadata, begin, replay })
    }
}

impl Hub {
    /// A hub over cores: streams are opened at each in turn, the logs are read from any. `render` makes an event's
    /// body. It works from its first stream on until `shutdown`; then its streams end.
    pub fn new(
        cores: &[Arc<Streams>],
        any: &Arc<Streams>,
        render: Render,
        ids: &SharedIdSource,
        shutdown: CancellationToken,
    ) -> Arc<Self> {
        Self::with_rings(cores, any, render, ids, shutdown, MAX_ENTRIES)
    }

    pub(crate) fn with_rings(
        cores: &[Arc<Streams>],
        any: &Arc<Streams>,
        render: Render,
        ids: &SharedIdSource,
        shutdown: CancellationToken,
        ring_entries: usize,
    ) -> Arc<Self> {
        let pages = Pages::new(Arc::clone(any), render);
        Arc::new(Self {
            links: cores.iter().map(|core| Link::new(Arc::clone(core), Arc::clone(ids))).collect(),
            tails: Tails::new(Arc::clone(any), render, ring_entries, Arc::clone(&pages)),
            pages,
            next: AtomicUsize::new(0),
            started: Once::new(),
            shutdown,
        })
    }

    /// Cancelled when streams end because this process stops.
    pub fn stopping(&self) -> CancellationToken {
        self.shutdown.clone()
    }

    /// Opens a stream with the credentials of `request`. `transport` names its client's protocol: `sse`, `websocket`
    /// or `grpc`.
    ///
    /// # Errors
    /// Core's error, or `UNAVAILABLE` when no core can be reached.
    pub async fn open(
        &self,
        transport: &'static str,
        request: Request<v1::OpenRequest>,
    ) -> Result<(OpenedStream, OpenStream), Status> {
        self.started.call_once(|| {
            for link in &self.links {
                tokio::spawn(Arc::clone(link).run(self.shutdown.clone()));
            }
            tokio::spawn(Arc::clone(&self.tails).run(self.shutdown.clone()));
        });
        let (metadata, extensions, message) = request.into_parts();
        let mut last = Status::unavailable("no core is there for streams");
        // A core may run and yet be unable to serve; then the next core is tried.
        for link in self.links_up().await {
            let request = Request::from_parts(metadata.clone(), extensions.clone(), message.clone());
            let opened = link.open(request).await;
            let opened =
                opened.and_then(|(response, stream, replay)| Ok((OpenedStream::new(response, replay)?, stream)));
            match opened {
                Ok((opened, stream)) => return Ok((opened, stream.counted(transport))),
                Err(status) if status.code() == Code::Unavailable => last = status,
                Err(status) => return Err(status),
            }
        }
        Err(last)
    }

    /// Adds a subscription to an open stream.
    ///
    /// # Errors
    /// Core's error.
    pub async fn subscribe(
        &self,
        stream: &OpenStream,
        request: Request<v1::OpenRequest>,
    ) -> Result<OpenedStream, Status> {
        let (response, replay) = stream.subscribe(request).await?;
        OpenedStream::new(response, replay)
    }

    /// The events of a subscription that core has accepted.
    ///
    /// # Errors
    /// The errors in the filter; core refuses it too.
    pub fn follow(
        &self,
        stream: &OpenStream,
        opened: &OpenedStream,
        types: &[i32],
        filters: Option<&v1::EventFilters>,
    ) -> Result<Subscription, Vec<FieldError>> {
        let begin = &opened.begin;
        let named: Vec<_> = types.iter().map(|kind| v1::EventType::try_from(*kind).unwrap_or_default()).collect();
        let filter = CompiledFilter::new(&named, filters)?;
        let shared = Shared {
            pages: Arc::clone(&self.pages),
            filter: Arc::new(filter),
            wanted: Arc::new(Wanted::new(types, filters)),
            signal: Arc::clone(&stream.signal),
            is_replay: begin.replay.is_some(),
        };
        let (replay, is_replay) = (begin.replay.as_ref(), shared.is_replay);
        let end = |index: usize| replay.and_then(|replay| replay.ends.get(index).copied());
        let places = begin.positions.iter().zip(&begin.live).enumerate();
        let followers = places.map(|(index, (from, live))| {
            Follower::new(self.tails.feed(&from.dataset, live.position), from.position, end(index), is_replay)
        });
        if begin.gap.is_some() {
            GAPS.at(stream.transport).increment(1);
        }
        let followers = followers.collect();
        let replay = replay.map(|begun| Replay::new(begun, opened.replay.clone()));
        Ok(Subscription::new(shared, followers, &begin.positions, stream.transport, replay))
    }

    /// The links at which streams can be opened, in rotating order; if there is none, the first one to come up.
    async fn links_up(&self) -> Vec<&Arc<Link>> {
        let start = self.next.fetch_add(1, Ordering::Relaxed) % self.links.len().max(1);
        let (late, early) = self.links.split_at(start);
        let order: Vec<&Arc<Link>> = early.iter().chain(late).collect();
        let up: Vec<&Arc<Link>> = order.iter().copied().filter(|link| *link.up().borrow()).collect();
        if !up.is_empty() || order.is_empty() {
            return up;
        }
        let waiting = order.iter().map(|link| {
            Box::pin(async move {
                let mut up = link.up();
                // The link lives as long as the hub.
                drop(up.wait_for(|up| *up).await);
            })
        });
        let first = timeout(LINK_TIMEOUT, select_all(waiting)).await;
        first.ok().and_then(|((), index, _)| order.get(index).copied()).into_iter().collect()
    }
}
