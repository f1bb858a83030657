//! The events of all datasets of a view that pass one filter.

use std::task::{Context, Poll};

use thesis_net::status;
use thesis_proto::{cursor::CursorEncoder, v1};
use tonic::Status;

use crate::{
    follower::{Follower, Shared},
    metrics::EVENTS,
    replay::{Gate, Replay},
    ring::Entry,
};

/// The events of a view that pass a filter, from the positions that core returns.
pub struct Subscription {
    shared: Shared,
    followers: Box<[Follower]>,
    positions: Box<[u64]>,
    cursors: CursorEncoder,
    transport: &'static str,
    /// The replay, until it is over. A replay that ends at a position stays.
    replay: Option<Replay>,
}

impl Subscription {
    pub(crate) fn new(
        shared: Shared,
        followers: Vec<Follower>,
        begin: &[v1::DatasetPosition],
        transport: &'static str,
        replay: Option<Replay>,
    ) -> Self {
        let view: Vec<String> = begin.iter().map(|place| place.dataset.clone()).collect();
        Self {
            shared,
            followers: followers.into(),
            positions: begin.iter().map(|place| place.position).collect(),
            cursors: CursorEncoder::new(&view),
            transport,
            replay,
        }
    }

    /// The cursor after all events that were shown or do not match.
    pub fn cursor(&self) -> String {
        self.cursors.encode(&self.positions)
    }

    /// The cursor after the events that all of these subscriptions have shown; `None` without subscriptions. Those that
    /// read alerts have one log more, behind the others, and say where it is read.
    pub fn common_cursor<'a>(subscriptions: impl IntoIterator<Item = &'a Self>) -> Option<String> {
        let subscriptions: Vec<&Self> = subscriptions.into_iter().collect();
        let first = subscriptions.iter().max_by_key(|subscription| subscription.positions.len())?;
        let mut lowest = first.positions.clone();
        for subscription in &subscriptions {
            for (lowest, position) in lowest.iter_mut().zip(&subscription.positions) {
                *lowest = (*lowest).min(*position);
            }
        }
        Some(first.cursors.encode(&lowest))
    }

    /// Counts the events that pass its filter and were not read. It may count more while it reads events that memory no
    /// longer has.
    pub fn behind(&self) -> u64 {
        self.followers.iter().map(|follower| follower.behind(&self.shared.filter)).sum()
    }

    /// Shows the events that are there, each with its cursor, until `show` returns false for this dataset.
    pub fn read(&mut self, mut show: impl FnMut(&str, &Entry) -> bool) {
        let Self { shared, followers, positions, cursors, transport, replay } = self;
        let gate = replay.as_ref().map_or(Gate::OPEN, Replay::gate);
        let (mut cursor, mut shown) = (String::new(), 0);
        let latency = if *transport == "grpc" { &status::CORE_FRAMES } else { &status::EDGE_FRAMES };
        for (index, follower) in followers.iter_mut().enumerate() {
            // Past events of a subscription that catches up are older than the service is slow.
            let was_live = follower.is_live();
            follower.read(shared, gate, |entry| {
                shown += 1;
                if was_live {
                    latency.record_since(entry.created_at);
                }
                positions[index] = entry.position;
                cursor.clear();
                cursors.encode_to(positions, &mut cursor);
                show(&cursor, entry)
            });
            // A client that resumes a paced replay continues at the time of its cursor.
            positions[index] = if gate.is_paced() { follower.passed() } else { follower.position() };
        }
        let is_over = !gate.is_paced() && followers.iter().all(Follower::is_live);
        if is_over && replay.as_ref().is_some_and(|replay| !replay.ends()) {
            *replay = None;
            shared.is_replay = false;
        }
        if shown > 0 {
            EVENTS.at(transport).increment(shown);
        }
    }

    /// Ready when there may be more to read. Fails when the log cannot be read; then the stream should end, so that the
    /// client opens it again. A cancelled wait loses nothing.
    pub fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Status>> {
        if self.is_complete() {
            return Poll::Ready(Ok(()));
        }
        let Self { shared, followers, replay, .. } = self;
        let (mut more, mut next_due) = (Poll::Pending, None);
        for follower in followers {
            if let Some(created_at) = follower.waits_for() {
                next_due = Some(next_due.map_or(created_at, |due: i64| due.min(created_at)));
                continue;
            }
            match follower.poll_more(shared, context) {
                Poll::Ready(Ok(())) => more = Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {}
            }
        }
        if let (Some(replay), Some(created_at)) = (replay, next_due)
            && replay.poll_due(created_at, context).is_ready()
        {
            more = Poll::Ready(Ok(()));
        }
        more
    }

    /// True if it is a replay that has shown all its events.
    pub fn is_complete(&self) -> bool {
        let ends = self.replay.as_ref().is_some_and(Replay::ends);
        ends && self.followers.iter().all(Follower::is_done)
    }
}
