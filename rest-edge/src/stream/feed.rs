//! One call to core for each dataset that somebody follows, however many follow it.

use std::{collections::HashMap, future::Future, pin::pin, sync::Arc, time::Duration};

use futures::{StreamExt as _, TryFutureExt as _, TryStreamExt as _, stream::BoxStream};
use parking_lot::{Mutex, RwLock};
use thesis_net::services::{Streams, Trusted};
use thesis_proto::v1;
use tokio::{sync::watch, time::sleep};
use tokio_stream::wrappers::WatchStream;
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::ring::{Batch, Ring};

/// Longest time that a feed lives on while nobody follows it.
const LINGER: Duration = Duration::from_secs(30);
/// The first and the longest pause before a broken call is made again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Batches of a dataset's log, in order, without an end.
pub(super) type Tail = BoxStream<'static, Result<Batch, Status>>;

/// The event types and filters that core is asked for; by default all events.
#[derive(Clone, Debug, Default)]
pub(super) struct Wanted {
    pub(super) types: Vec<i32>,
    pub(super) filters: Option<v1::EventFilters>,
}

/// The feeds of an edge.
pub(crate) struct Feeds {
    core: Arc<Streams>,
    shutdown: CancellationToken,
    ring_entries: usize,
    feeds: Mutex<HashMap<String, Arc<Feed>>>,
}

/// One dataset's newest events, and news of more.
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) dataset: String,
    pub(super) ring: RwLock<Ring>,
    news: watch::Sender<u64>,
}

impl Feeds {
    /// Feeds from a core. Each keeps at most `ring_entries` entries.
    pub(crate) fn new(core: Arc<Streams>, shutdown: CancellationToken, ring_entries: usize) -> Arc<Self> {
        Arc::new(Self { core, shutdown, ring_entries, feeds: Mutex::default() })
    }

    /// A dataset's feed and its news. The first follower starts the feed, at position `live`.
    pub(super) fn feed(self: &Arc<Self>, dataset: &str, live: u64) -> (Arc<Feed>, WatchStream<u64>) {
        let mut feeds = self.feeds.lock();
        let feed = feeds.get(dataset).cloned().unwrap_or_else(|| {
            let feed = Arc::new(Feed {
                dataset: dataset.to_owned(),
                ring: RwLock::new(Ring::new(live, self.ring_entries)),
                news: watch::Sender::new(live),
            });
            feeds.insert(dataset.to_owned(), Arc::clone(&feed));
            tokio::spawn(Arc::clone(self).run(Arc::clone(&feed)));
            feed
        });
        // Still under the lock, so that a feed that is about to end sees its new follower.
        let news = WatchStream::from_changes(feed.news.subscribe());
        (feed, news)
    }

    /// Reads the wanted events of a dataset's log after a position.
    pub(super) fn tail(&self, dataset: &str, after: u64, wanted: &Wanted) -> Tail {
        let Wanted { types, filters } = wanted.clone();
        let message = v1::TailRequest { dataset: dataset.to_owned(), after, types, filters };
        let mut request = Request::new(message);
        request.extensions_mut().insert(Trusted::default());
        let core = Arc::clone(&self.core);
        let call = async move { core.tail(request).await };
        call.map_ok(Response::into_inner).try_flatten_stream().map_ok(Batch::from).boxed()
    }

    async fn run(self: Arc<Self>, feed: Arc<Feed>) {
        let mut unwanted = pin!(self.unwanted(&feed));
        let mut pause = PAUSES.0;
        loop {
            let position = feed.ring.read().position();
            let mut tail = self.tail(&feed.dataset, position, &Wanted::default());
            loop {
                let batch = tokio::select! {
                    () = &mut unwanted => return,
                    batch = tail.next() => batch,
                };
                match batch {
                    Some(Ok(batch)) => feed.push(batch),
                    Some(Err(status)) => {
                        tracing::warn!(dataset = feed.dataset, %status, "feed broke; reading on from where it was");
                        break;
                    }
                    None => break,
                }
                pause = PAUSES.0;
            }
            tokio::select! {
                () = &mut unwanted => return,
                () = sleep(pause) => pause = (pause * 2).min(PAUSES.1),
            }
        }
    }

    /// Ends when the feed was removed because nobody followed it for a while, or when the edge stops.
    fn unwanted<'a>(&'a self, feed: &'a Feed) -> impl Future<Output = ()> + 'a {
        let unfollowed = async {
            loop {
                feed.news.closed().await;
                sleep(LINGER).await;
                let mut feeds = self.feeds.lock();
                if feed.news.is_closed() {
                    feeds.remove(&feed.dataset);
                    return;
                }
            }
        };
        async {
            tokio::select! {
                () = unfollowed => {}
                () = self.shutdown.cancelled() => {}
            }
        }
    }
}

impl Feed {
    fn push(&self, batch: Batch) {
        let mut ring = self.ring.write();
        ring.push(batch);
        let position = ring.position();
        drop(ring);
        // After the ring, so that a follower that gets the news finds the events there.
        self.news.send_replace(position);
    }
}
