//! One connection's place in one dataset.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::{Stream as _, StreamExt as _};
use tokio_stream::wrappers::WatchStream;
use tonic::Status;

use super::{
    feed::{Feed, Feeds, Tail, Wanted},
    ring::{Batch, Entry},
};

/// A position in a dataset's log, and the reading from there on. It reads the shared feed. While the feed begins after
/// its position, it reads the wanted events from the log itself.
pub(super) struct Follower {
    feeds: Arc<Feeds>,
    pub(super) feed: Arc<Feed>,
    news: WatchStream<u64>,
    wanted: Arc<Wanted>,
    position: u64,
    /// Its own reading of the log, only while it is behind the feed.
    catching_up: Option<CatchingUp>,
}

struct CatchingUp {
    tail: Tail,
    batch: Batch,
}

impl Follower {
    /// Follows the wanted events of a dataset after a position.
    pub(super) fn new(feeds: &Arc<Feeds>, dataset: &str, position: u64, live: u64, wanted: &Arc<Wanted>) -> Self {
        let (feed, news) = feeds.feed(dataset, live);
        Self { feeds: Arc::clone(feeds), feed, news, wanted: Arc::clone(wanted), position, catching_up: None }
    }

    /// Everything up to here has been read.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Shows the events that are there, in order and each once, until `show` says to stop.
    pub(super) fn read(&mut self, mut show: impl FnMut(&Entry) -> bool) {
        if let Some(CatchingUp { batch, .. }) = &mut self.catching_up {
            while let Some(entry) = batch.entries.pop_front() {
                if entry.position <= self.position {
                    continue;
                }
                self.position = entry.position;
                if !show(&entry) {
                    return;
                }
            }
            self.position = self.position.max(batch.position);
        }
        let read = self.feed.ring.read().read(self.position, show);
        match read {
            Ok(position) => {
                self.position = position;
                self.catching_up = None;
            }
            Err(_) if self.catching_up.is_none() => {
                let tail = self.feeds.tail(&self.feed.dataset, self.position, &self.wanted);
                let batch = Batch { entries: Default::default(), position: self.position };
                self.catching_up = Some(CatchingUp { tail, batch });
            }
            Err(_) => {}
        }
    }

    /// Ready when there may be more to read; fails when its own reading of the log breaks.
    pub(super) fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        let Some(CatchingUp { tail, batch }) = &mut self.catching_up else {
            // The feed outlives its followers, so they never see its news end.
            return Pin::new(&mut self.news).poll_next(context).map(|_| Ok(()));
        };
        let next = ready!(tail.poll_next_unpin(context));
        *batch = next.unwrap_or_else(|| Err(Status::unavailable("the log's reading ended")))?;
        Poll::Ready(Ok(()))
    }
}
