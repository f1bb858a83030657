//! The parts of one open stream: core's control of it, its datasets, its filter.

use std::{future::poll_fn, pin::Pin, sync::Arc, task::Poll};

use futures::{FutureExt as _, Stream as _, StreamExt as _, future::Either};
use thesis_proto::{
    cursor::CursorEncoder,
    filter::CompiledFilter,
    v1::{self, open_response::Message},
};
use tonic::Status;

use thesis_net::services::Stream as Messages;

use super::{
    feed::{Feeds, Wanted},
    follower::Follower,
    ring::Entry,
};

/// One stream of events, from the positions that core gives.
pub(super) struct Subscription {
    control: Messages<v1::OpenResponse>,
    filter: CompiledFilter,
    followers: Box<[Follower]>,
    positions: Box<[u64]>,
    cursors: CursorEncoder,
}

/// What happens next on a stream.
#[derive(Debug)]
pub(super) enum Step {
    /// There may be something to read.
    More,
    /// The stream ends, to be opened again or not.
    End { reconnect: bool },
}

impl Subscription {
    /// Starts at core's positions. Any later message from core ends the stream.
    pub(super) fn new(
        begin: v1::StreamBegin,
        control: Messages<v1::OpenResponse>,
        filter: CompiledFilter,
        wanted: Wanted,
        feeds: &Arc<Feeds>,
    ) -> Self {
        let wanted = Arc::new(wanted);
        let view: Vec<String> = begin.positions.iter().map(|place| place.dataset.clone()).collect();
        let places = begin.positions.iter().zip(&begin.live);
        Self {
            followers: places
                .map(|(from, live)| Follower::new(feeds, &from.dataset, from.position, live.position, &wanted))
                .collect(),
            positions: begin.positions.iter().map(|place| place.position).collect(),
            cursors: CursorEncoder::new(&view),
            control,
            filter,
        }
    }

    /// The cursor that resumes after everything that was shown.
    pub(super) fn cursor(&self) -> String {
        self.cursors.encode(&self.positions)
    }

    /// The step that ends the stream, if it has to end now. Ask before each piece is written.
    pub(super) fn ended(&mut self) -> Option<Step> {
        self.control.next().now_or_never().map(end)
    }

    /// Waits for what happens next. Giving up the wait loses nothing.
    pub(super) async fn next(&mut self) -> Step {
        let Self { control, followers, .. } = self;
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
            Either::Left(message) => end(message),
            Either::Right(step) => step,
        }
    }

    /// Shows the events that pass the filter, each with its cursor, until `show` says to stop with this dataset.
    pub(super) fn read(&mut self, mut show: impl FnMut(&CursorEncoder, &[u64], &Entry) -> bool) {
        let Self { followers, positions, cursors, filter, .. } = self;
        for (index, follower) in followers.iter_mut().enumerate() {
            follower.read(|entry| {
                positions[index] = entry.position;
                !filter.matches(&entry.event) || show(cursors, positions, entry)
            });
            positions[index] = follower.position();
        }
    }
}

/// How a stream ends after a message from core, or after the last one.
fn end(message: Option<Result<v1::OpenResponse, Status>>) -> Step {
    match message.and_then(Result::ok).and_then(|message| message.message) {
        Some(Message::End(end)) => Step::End { reconnect: end.reason() != v1::StreamEndReason::Revoked },
        Some(Message::Begin(_)) | None => Step::End { reconnect: true },
    }
}
