//! Reads the followed datasets' logs as they grow, once for all connections.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures::{
    StreamExt as _, TryFutureExt as _, TryStreamExt as _,
    stream::{BoxStream, SelectAll, once},
};
use parking_lot::Mutex;
use thesis_net::{
    panics,
    services::{Streams, Trusted},
};
use thesis_proto::v1;
use tokio::{
    sync::Notify,
    time::{Instant, interval, sleep},
};
use tokio_util::sync::CancellationToken;
use tonic::{Response, Status};

use crate::{
    feed::Feed,
    pages::Pages,
    ring::{Page, Render},
};

/// Time for which a feed is kept without followers.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Interval of the scan for feeds without followers.
const POLL_INTERVAL: Duration = Duration::from_secs(10);
/// Maximum bytes of events kept in memory for all datasets together, enforced at each scan.
const MAX_BYTES: usize = 256 * 1024 * 1024;
/// Maximum calls of some datasets each. Beyond it, new calls for all datasets replace them.
const MAX_CALLS: usize = 16;
/// Maximum datasets of one call: requests have a limit.
const MAX_DATASETS: usize = 1_000;
/// Maximum forgotten feeds beyond the number of kept ones: calls still read their datasets. Beyond it, new calls for
/// all datasets replace them.
const MAX_FORGOTTEN: usize = 100;
/// Time in which datasets gather before a new call follows them.
const BATCH_WAIT: Duration = Duration::from_millis(2);
/// The first and the maximum pause before broken calls are repeated.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// Pages that a call reads, each with the feed for which the call was made.
type Messages = BoxStream<'static, Result<(Weak<Feed>, v1::TailResponse), Status>>;

/// The feeds of all datasets that connections follow.
pub(crate) struct Tails {
    core: Arc<Streams>,
    render: Render,
    ring_entries: usize,
    /// Pages of the followed datasets. They are dropped with the feed, which learns of erasures only while it is
    /// followed.
    pages: Arc<Pages>,
    state: Mutex<State>,
    added: Notify,
}

#[derive(Default)]
struct State {
    feeds: HashMap<String, Followed>,
    /// Feeds that no call follows yet.
    new: Vec<Arc<Feed>>,
    /// Number of forgotten feeds whose datasets a call still follows.
    forgotten: usize,
}

struct Followed {
    feed: Arc<Feed>,
    /// Time since which the feed has no follower.
    idle_since: Option<Instant>,
}

impl Tails {
    pub(crate) fn new(core: Arc<Streams>, render: Render, ring_entries: usize, pages: Arc<Pages>) -> Arc<Self> {
        Arc::new(Self { core, render, ring_entries, pages, state: Mutex::default(), added: Notify::new() })
    }

    /// A dataset's feed. The first follower starts it, after position `live`.
    pub(crate) fn feed(&self, dataset: &str, live: u64) -> Arc<Feed> {
        let mut state = self.state.lock();
        if let Some(followed) = state.feeds.get_mut(dataset) {
            followed.idle_since = None;
            return Arc::clone(&followed.feed);
        }
        let feed = Arc::new(Feed::new(dataset, live, self.ring_entries));
        state.feeds.insert(dataset.to_owned(), Followed { feed: Arc::clone(&feed), idle_since: None });
        state.new.push(Arc::clone(&feed));
        self.added.notify_one();
        feed
    }

    /// Reads the logs until `shutdown`.
    pub(crate) async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut shutdown = pin!(shutdown.cancelled());
        let mut looks = interval(POLL_INTERVAL);
        let mut calls: SelectAll<Messages> = SelectAll::new();
        let mut pause = RETRY_PAUSES.0;
        loop {
            tokio::select! {
                () = &mut shutdown => return,
                () = self.added.notified() => {
                    sleep(BATCH_WAIT).await;
                    let new = std::mem::take(&mut self.state.lock().new);
                    if calls.len() < MAX_CALLS {
                        calls.extend(self.calls(&new));
                    } else {
                        calls = self.all_calls();
                    }
                }
                Some(read) = calls.next() => match read.and_then(|(feed, message)| self.push(&feed, message)) {
                    Ok(()) => pause = RETRY_PAUSES.0,
                    Err(status) => {
                        tracing::warn!(%status, "reading the logs broke; reading on from where it was");
                        calls.clear();
                        tokio::select! {
                            () = &mut shutdown => return,
                            () = sleep(pause) => pause = (pause * 2).min(RETRY_PAUSES.1),
                        }
                        calls = self.all_calls();
                    }
                },
                _ = looks.tick() => {
                    if self.forget_unfollowed() {
                        calls = self.all_calls();
                    }
                    self.trim();
                }
            }
        }
    }

    /// Calls that follow all feeds.
    fn all_calls(&self) -> SelectAll<Messages> {
        let feeds: Vec<Arc<Feed>> = {
            let mut state = self.state.lock();
            state.new.clear();
            state.forgotten = 0;
            state.feeds.values().map(|followed| Arc::clone(&followed.feed)).collect()
        };
        self.calls(&feeds).collect()
    }

    /// Calls that follow these feeds.
    fn calls<'a>(&'a self, feeds: &'a [Arc<Feed>]) -> impl Iterator<Item = Messages> + 'a {
        feeds.chunks(MAX_DATASETS).map(|feeds| self.call(feeds))
    }

    /// A call that follows feeds from where they are. It never ends without an error. It outlives feeds that are
    /// forgotten, and never gives their pages to later feeds of the same datasets, which begin elsewhere.
    fn call(&self, feeds: &[Arc<Feed>]) -> Messages {
        let by_dataset: HashMap<String, Weak<Feed>> =
            feeds.iter().map(|feed| (feed.dataset.clone(), Arc::downgrade(feed))).collect();
        let place = |feed: &Arc<Feed>| v1::DatasetPosition { dataset: feed.dataset.clone(), position: feed.position() };
        let request = Trusted::request(v1::TailRequest { after: feeds.iter().map(place).collect() });
        let core = Arc::clone(&self.core);
        let call = async move { core.tail(request).await };
        let ended = once(async { Err(Status::unavailable("the core ended the reading")) });
        let messages = call.map_ok(Response::into_inner).try_flatten_stream().chain(ended);
        let messages = messages.map_ok(move |message: v1::TailResponse| {
            let feed = by_dataset.get(&message.dataset).cloned().unwrap_or_default();
            (feed, message)
        });
        // In one process core's part is polled here. Its panic must not stop the feeds of all connections.
        let caught = AssertUnwindSafe(messages).catch_unwind();
        caught
            .map(|message| message.unwrap_or_else(|panic| Err(Status::internal(panics::text(panic.as_ref())))))
            .boxed()
    }

    /// Adds a page to its feed, unless that is forgotten. Fails when events before the page are missing.
    fn push(&self, feed: &Weak<Feed>, message: v1::TailResponse) -> Result<(), Status> {
        let Some(feed) = feed.upgrade() else { return Ok(()) };
        let v1::TailResponse { events, position, after, erased, .. } = message;
        let pushed = feed.push(Page::new(after, events, position, self.render));
        pushed.map_err(|_| Status::data_loss(format!("the core left out events of {}", feed.dataset)))?;
        if feed.erase(erased) {
            self.pages.forget(&feed.dataset);
        }
        Ok(())
    }

    /// Forgets feeds that had no follower for a while. Returns true if new calls should replace all calls, because too
    /// many forgotten datasets are read.
    fn forget_unfollowed(&self) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock();
        let before = state.feeds.len();
        state.feeds.retain(|dataset, followed| {
            // A second reference is a follower, or a feed that no call follows yet.
            if Arc::strong_count(&followed.feed) > 1 {
                followed.idle_since = None;
                return true;
            }
            let is_kept = now - *followed.idle_since.get_or_insert(now) < IDLE_TIMEOUT;
            if !is_kept {
                self.pages.forget(dataset);
            }
            is_kept
        });
        state.forgotten += before - state.feeds.len();
        state.forgotten > state.feeds.len() + MAX_FORGOTTEN || (state.forgotten > 0 && state.feeds.is_empty())
    }

    /// Drops events of the largest feeds, while all feeds together exceed their limit.
    fn trim(&self) {
        let feeds: Vec<Arc<Feed>> =
            self.state.lock().feeds.values().map(|followed| Arc::clone(&followed.feed)).collect();
        let share = share(feeds.iter().map(|feed| feed.bytes()).collect(), MAX_BYTES);
        feeds.iter().filter(|feed| feed.bytes() > share).for_each(|feed| feed.trim(share));
    }
}

/// The limit for each feed, so that all feeds together keep at most `room`: smaller feeds keep all their events, and
/// the largest share the rest.
fn share(mut sizes: Vec<usize>, mut room: usize) -> usize {
    sizes.sort_unstable();
    for (place, size) in sizes.iter().enumerate() {
        let each = room / (sizes.len() - place);
        if *size > each {
            return each;
        }
        room -= size;
    }
    usize::MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_give_way() {
        assert_eq!(share(vec![], 10), usize::MAX);
        assert_eq!(share(vec![4, 3, 3], 10), usize::MAX);
        assert_eq!(share(vec![100, 1, 0], 10), 9);
        assert_eq!(share(vec![1, 100, 100], 11), 5);
    }
}
