//! Wakes a connection, or ends it.

use std::{sync::OnceLock, task::Waker};

use futures::task::AtomicWaker;
use thesis_proto::v1::StreamEndReason;

/// The reason why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The key has lost its rights; the client should not come back.
    Revoked,
    /// A replica stops or the connection to it broke; the client should open the stream again.
    Reconnect,
    /// Another connection uses the stream's ticket.
    Replaced,
}

impl From<StreamEndReason> for EndReason {
    fn from(reason: StreamEndReason) -> Self {
        match reason {
            StreamEndReason::Revoked => Self::Revoked,
            StreamEndReason::Replaced => Self::Replaced,
            StreamEndReason::ShuttingDown | StreamEndReason::Unspecified => Self::Reconnect,
        }
    }
}

/// One connection's waker, and its end reason once it must end.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    waker: AtomicWaker,
    end: OnceLock<EndReason>,
}

impl Signal {
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// Registers the task to wake; check for events only after this.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Ends the stream. The first end counts.
    pub(crate) fn end(&self, end: EndReason) {
        let _first = self.end.set(end);
        self.wake();
    }

    pub(crate) fn ended(&self) -> Option<EndReason> {
        self.end.get().copied()
    }
}
