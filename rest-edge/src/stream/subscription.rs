//! What one connection follows: core's control of it, its datasets, its filter.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use futures::{Stream as _, future::Either};
use thesis_proto::{
    cursor::CursorEncoder,
    filter::CompiledFilter,
    v1::{self, open_response::Message},
};
use tonic::Streaming;

use super::{feed::Feeds, follower::Follower, ring::Entry};

/// Core's first message, and those to come.
pub(super) struct Opened {
    pub(super) first: v1::OpenResponse,
    pub(super) rest: Streaming<v1::OpenResponse>,
}

/// One stream of events: first what core replays, then the live feeds.
pub(super) struct Subscription {
    control: Streaming<v1::OpenResponse>,
    first: Option<v1::OpenResponse>,
    filter: CompiledFilter,
    feeds: Arc<Feeds>,
    live: Option<Live>,
}

struct Live {
    followers: Box<[Follower]>,
    positions: Box<[u64]>,
    cursors: CursorEncoder,
}

/// What happens next on a stream.
#[derive(Debug)]
pub(super) enum Step {
    /// Something could not be replayed.
    Gap(v1::StreamGap),
    /// A replayed event.
    Replayed(Box<v1::StreamEvent>),
    /// There may be something to read.
    More,
    /// The stream ends, to be opened again or not.
    End { reconnect: bool },
}

impl Subscription {
    /// Starts where core says.
    pub(super) fn new(opened: Opened, filter: CompiledFilter, feeds: Arc<Feeds>) -> Self {
        Self { control: opened.rest, first: Some(opened.first), filter, feeds, live: None }
    }

    /// Waits for what happens next. Giving up the wait loses nothing.
    pub(super) async fn next(&mut self) -> Step {
        if let Some(first) = self.first.take() {
            return self.obey(Some(first));
        }
        let control = &mut self.control;
        let followers = self.live.as_mut().map(|live| &mut *live.followers).unwrap_or_default();
        let next = poll_fn(|context| {
            if let Poll::Ready(message) = Pin::new(&mut *control).poll_next(context) {
                return Poll::Ready(Either::Left(message));
            }
            let mut more = Poll::Pending;
            for follower in &mut *followers {
                match follower.poll_more(context) {
                    Poll::Ready(Ok(())) => more = Poll::Ready(Either::Right(Step::More)),
                    Poll::Ready(Err(_)) => {
                        return Poll::Ready(Either::Right(Step::End { reconnect: true }));
                    }
                    Poll::Pending => {}
                }
            }
            more
        });
        match next.await {
            Either::Left(message) => self.obey(message.and_then(Result::ok)),
            Either::Right(step) => step,
        }
    }

    /// Shows the live events that pass the filter, each with its cursor, until `show` says to stop
    /// with this dataset.
    pub(super) fn read(&mut self, mut show: impl FnMut(&CursorEncoder, &[u64], &Entry) -> bool) {
        let Some(Live { followers, positions, cursors }) = &mut self.live else {
            return;
        };
        for (index, follower) in followers.iter_mut().enumerate() {
            follower.read(|entry| {
                positions[index] = entry.position;
                !self.filter.matches(&entry.event) || show(cursors, positions, entry)
            });
            positions[index] = follower.position();
        }
    }

    fn obey(&mut self, message: Option<v1::OpenResponse>) -> Step {
        match message.and_then(|message| message.message) {
            Some(Message::Gap(gap)) => Step::Gap(gap),
            Some(Message::Event(event)) => Step::Replayed(Box::new(event)),
            Some(Message::Live(live)) => {
                let view: Vec<_> = live.positions.iter().map(|place| place.dataset.clone()).collect();
                self.live = Some(Live {
                    followers: live
                        .positions
                        .iter()
                        .map(|place| self.feeds.follow(&place.dataset, place.position))
                        .collect(),
                    positions: live.positions.iter().map(|place| place.position).collect(),
                    cursors: CursorEncoder::new(&view),
                });
                Step::More
            }
            Some(Message::End(end)) => Step::End { reconnect: end.reason() != v1::StreamEndReason::Revoked },
            None => Step::End { reconnect: true },
        }
    }
}
