//! What wakes a connection.

use std::{
    sync::atomic::{AtomicU8, Ordering},
    task::Waker,
};

use futures::task::AtomicWaker;
use thesis_proto::v1::StreamEndReason;

/// Why a stream ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The key has lost its rights; the client should not come back.
    Revoked,
    /// A replica stops or the way to it broke; the client should open the stream again.
    Reconnect,
    /// Another connection uses the stream's ticket.
    Replaced,
}

impl From<StreamEndReason> for End {
    fn from(reason: StreamEndReason) -> Self {
        match reason {
            StreamEndReason::Revoked => Self::Revoked,
            StreamEndReason::Replaced => Self::Replaced,
            StreamEndReason::ShuttingDown | StreamEndReason::Unspecified => Self::Reconnect,
        }
    }
}

/// One connection's waker, and its end once it has come.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    waker: AtomicWaker,
    end: AtomicU8,
}

impl Signal {
    pub(crate) fn wake(&self) {
        self.waker.wake();
    }

    /// The task to wake; look for news only after this.
    pub(crate) fn register(&self, waker: &Waker) {
        self.waker.register(waker);
    }

    /// Ends the stream. The first end counts.
    pub(crate) fn end(&self, end: End) {
        let number = match end {
            End::Revoked => 1,
            End::Reconnect => 2,
            End::Replaced => 3,
        };
        let _first = self.end.compare_exchange(0, number, Ordering::AcqRel, Ordering::Acquire);
        self.wake();
    }

    pub(crate) fn ended(&self) -> Option<End> {
        match self.end.load(Ordering::Acquire) {
            0 => None,
            1 => Some(End::Revoked),
            2 => Some(End::Reconnect),
            _ => Some(End::Replaced),
        }
    }
}
