//! One connection's place in one dataset.

use std::{
    sync::Arc,
    task::{Context, Poll, ready},
};

use thesis_net::metric::InProgress;
use thesis_proto::filter::CompiledFilter;
use tonic::Status;

use crate::{
    feed::{Feed, Listening},
    metrics::LAGGING,
    pages::{Fetching, Pages, Wanted},
    ring::{Entry, Page},
    signal::Signal,
};

/// The parts that the followers of one subscription share.
pub(crate) struct Shared {
    pub(crate) pages: Arc<Pages>,
    pub(crate) filter: Arc<CompiledFilter>,
    pub(crate) wanted: Arc<Wanted>,
    pub(crate) signal: Arc<Signal>,
}

/// A position in a dataset's log. It reads the shared feed, or pages of the log while the feed begins after the
/// position.
pub(crate) struct Follower {
    feed: Arc<Feed>,
    position: u64,
    reading: Reading,
}

enum Reading {
    Live(Listening),
    Behind(PageReading),
}

struct PageReading {
    /// A page, and the number of its entries that were read.
    page: Option<(Arc<Page>, usize)>,
    fetching: Option<Fetching>,
    /// Counts this follower in `streams_lagging`.
    _lags: InProgress,
}

impl PageReading {
    fn new() -> Self {
        Self { page: None, fetching: None, _lags: InProgress::begin(LAGGING.one()) }
    }
}

impl Follower {
    /// Follows a dataset after a position.
    pub(crate) fn new(feed: Arc<Feed>, position: u64) -> Self {
        Self { feed, position, reading: Reading::Behind(PageReading::new()) }
    }

    /// The position up to which it has read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Counts the events that pass the filter and were not read. If the feed no longer has all of them, all entries of
    /// the log count.
    pub(crate) fn behind(&self, filter: &CompiledFilter) -> u64 {
        let entries = || self.feed.position().saturating_sub(self.position);
        self.feed.count(self.position, filter).unwrap_or_else(entries)
    }

    /// Shows the events that are there and pass the filter, in order and each once, until `show` returns false.
    pub(crate) fn read(&mut self, shared: &Shared, mut show: impl FnMut(&Entry) -> bool) {
        loop {
            match &mut self.reading {
                Reading::Live(listening) => match listening.read(self.position, &mut show) {
                    Ok(position) => {
                        self.position = position;
                        return;
                    }
                    Err(_) => self.reading = Reading::Behind(PageReading::new()),
                },
                Reading::Behind(reading) => {
                    if let Some((page, read)) = &mut reading.page {
                        while let Some(entry) = page.entries.get(*read) {
                            *read += 1;
                            self.position = entry.position;
                            if shared.filter.matches_keys(&entry.keys) && !show(entry) {
                                return;
                            }
                        }
                        self.position = self.position.max(page.position);
                        reading.page = None;
                    }
                    if reading.fetching.is_some() {
                        return;
                    }
                    match self.feed.join(self.position, &shared.filter, &shared.signal) {
                        Some(listening) => self.reading = Reading::Live(listening),
                        None => {
                            let page = shared.pages.fetch(&self.feed, self.position, &shared.wanted);
                            reading.fetching = Some(page);
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Ready when there may be more to read; fails when a page cannot be read.
    pub(crate) fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match &mut self.reading {
            Reading::Live(listening) if listening.has_events() => Poll::Ready(Ok(())),
            Reading::Live(_) => Poll::Pending,
            Reading::Behind(reading) => {
                if let Some(fetching) = &mut reading.fetching {
                    let page = ready!(fetching.as_mut().poll(context));
                    reading.fetching = None;
                    reading.page = Some((page?, 0));
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}
