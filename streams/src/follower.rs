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
    replay::Gate,
    ring::{Entry, Page},
    signal::Signal,
};

/// The parts that the followers of one subscription share.
pub(crate) struct Shared {
    pub(crate) pages: Arc<Pages>,
    pub(crate) filter: Arc<CompiledFilter>,
    pub(crate) wanted: Arc<Wanted>,
    pub(crate) signal: Arc<Signal>,
    /// True if it replays the past.
    pub(crate) is_replay: bool,
}

impl Shared {
    /// Reads the page after a position.
    fn fetch(&self, feed: &Feed, position: u64) -> Fetching {
        self.pages.fetch(feed, position, &self.wanted, self.is_replay)
    }
}

/// A position in a dataset's log. It reads the shared feed, or pages of the log while the feed begins after the
/// position.
pub(crate) struct Follower {
    feed: Arc<Feed>,
    position: u64,
    /// The position of the last due event, whether or not it matches the filter.
    passed: u64,
    /// The position of the last event to show. A follower with an end never becomes live.
    end: Option<u64>,
    /// The time of the next event, if it is not due yet.
    waits_for: Option<i64>,
    reading: Reading,
}

enum Reading {
    Live(Listening),
    Behind(PageReading),
}

struct PageReading {
    /// A page, and the number of its entries that were read.
    page: Option<(Arc<Page>, usize)>,
    /// The page after the current one, which a replay reads ahead.
    fetching: Option<Fetching>,
    /// The position up to which a text may have been erased before any of these pages was read.
    erased: u64,
    /// Counts this follower in `streams_lagging`, unless it is a replay.
    _lags: Option<InProgress>,
}

impl PageReading {
    fn new(feed: &Feed, is_replay: bool) -> Self {
        let lags = (!is_replay).then(|| InProgress::begin(LAGGING.one()));
        Self { page: None, fetching: None, erased: feed.erased(), _lags: lags }
    }

    /// Drops pages that were read before an erasure. A slow client or a paced replay may keep a page for long.
    fn drop_erased(&mut self, feed: &Feed) {
        let erased = feed.erased();
        if self.erased < erased {
            (self.page, self.fetching, self.erased) = (None, None, erased);
        }
    }
}

impl Follower {
    /// Follows a dataset after a position, up to an end if there is one.
    pub(crate) fn new(feed: Arc<Feed>, position: u64, end: Option<u64>, is_replay: bool) -> Self {
        let reading = Reading::Behind(PageReading::new(&feed, is_replay));
        Self { feed, position, passed: position, end, waits_for: None, reading }
    }

    /// The position of the last due event.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// The time of the next event, if it was not due at the last read.
    pub(crate) fn waits_for(&self) -> Option<i64> {
        self.waits_for
    }

    /// True if it has reached its end.
    pub(crate) fn is_done(&self) -> bool {
        self.end.is_some_and(|end| self.position >= end)
    }

    /// True if it reads the shared feed.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.reading, Reading::Live(_))
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

    /// Shows the available, due and matching events in order, each once, until `show` returns false.
    pub(crate) fn read(&mut self, shared: &Shared, gate: Gate<'_>, mut show: impl FnMut(&Entry) -> bool) {
        self.waits_for = None;
        while !self.is_done() {
            let Self { feed, position, passed, end, waits_for, reading } = self;
            let mut is_due = |entry: &Entry| {
                let is_due = gate.is_due(entry);
                if is_due {
                    *passed = entry.position;
                } else {
                    *waits_for = Some(entry.created_at);
                }
                is_due
            };
            match reading {
                Reading::Live(listening) => match listening.read(*position, is_due, &mut show) {
                    Ok(reached) => {
                        *position = reached;
                        return;
                    }
                    Err(_) => *reading = Reading::Behind(PageReading::new(feed, shared.is_replay)),
                },
                Reading::Behind(pages) => {
                    pages.drop_erased(feed);
                    if let Some((page, read)) = &mut pages.page {
                        let upto = end.unwrap_or(u64::MAX);
                        while let Some(entry) = page.entries.get(*read).filter(|entry| entry.position <= upto) {
                            if !is_due(entry) {
                                return;
                            }
                            *read += 1;
                            *position = entry.position;
                            if shared.filter.matches_keys(&entry.keys) && !show(entry) {
                                return;
                            }
                        }
                        *position = page.position.max(*position).min(upto);
                        pages.page = None;
                    }
                    if pages.fetching.is_some() {
                        return;
                    }
                    let joined = end.is_none().then(|| feed.join(*position, &shared.filter, &shared.signal)).flatten();
                    match joined {
                        Some(listening) => *reading = Reading::Live(listening),
                        None if end.is_some_and(|end| *position >= end) => {}
                        None => {
                            pages.fetching = Some(shared.fetch(feed, *position));
                            return;
                        }
                    }
                }
            }
        }
        self.passed = self.position;
    }

    /// Ready when there may be more to read; fails when a page cannot be read.
    pub(crate) fn poll_more(&mut self, shared: &Shared, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        match &mut self.reading {
            _ if self.end.is_some_and(|end| self.position >= end) => Poll::Pending,
            Reading::Live(listening) if listening.has_events() => Poll::Ready(Ok(())),
            Reading::Live(_) => Poll::Pending,
            Reading::Behind(reading) => {
                if reading.page.is_none()
                    && let Some(fetching) = &mut reading.fetching
                {
                    let page = ready!(fetching.as_mut().poll(context));
                    reading.fetching = None;
                    let page = page?;
                    // The log has the events that have left the feed.
                    let has_next = self.end.is_none_or(|end| page.position < end) && !self.feed.covers(page.position);
                    reading.fetching = (shared.is_replay && has_next).then(|| shared.fetch(&self.feed, page.position));
                    reading.page = Some((page, 0));
                }
                Poll::Ready(Ok(()))
            }
        }
    }
}
