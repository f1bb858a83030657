//! Streams against a core with a log that grows.

mod joining;
mod sse;

use std::sync::Arc;

use futures::{StreamExt as _, stream::unfold};
use parking_lot::Mutex;
use prost::Message as _;
use thesis_proto::v1;
use tokio::sync::watch;
use tonic::Status;

use crate::tests::fake::{Reply, event};

/// A dataset's log: which of its entries are events, the first at position 1.
pub(super) struct Log {
    entries: Mutex<Vec<bool>>,
    head: watch::Sender<u64>,
}

impl Log {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), head: watch::Sender::new(0) })
    }

    pub(super) fn append(&self, entries: &[bool]) {
        let mut all = self.entries.lock();
        all.extend(entries);
        self.head.send_replace(all.len() as u64);
    }

    pub(super) fn head(&self) -> u64 {
        *self.head.borrow()
    }

    /// The positions of events after a position.
    pub(super) fn events_after(&self, after: u64) -> Vec<u64> {
        let entries = self.entries.lock();
        let positions = (1..).zip(entries.iter()).filter(|(position, is_event)| **is_event && *position > after);
        positions.map(|(position, _)| position).collect()
    }

    /// Answers `Tail`, some entries a batch, breaking off after some batches.
    pub(super) fn tail(self: &Arc<Self>, request: &[u8], batch: u64, breaks_after: usize) -> Reply {
        let after = v1::TailRequest::decode(request).unwrap().after;
        let start = (Arc::clone(self), self.head.subscribe(), after);
        let batches = unfold(start, move |(log, mut head, after)| async move {
            let reached = (*head.wait_for(|head| *head > after).await.unwrap()).min(after + batch);
            let positions = log.events_after(after).into_iter().filter(|position| *position <= reached);
            let events = positions.map(|position| v1::TailEvent { position, event: Some(event(position)) }).collect();
            let message = v1::TailResponse { events, position: reached }.encode_to_vec();
            Some((Ok(message.into()), (log, head, reached)))
        });
        let broken = futures::stream::iter([Err(Status::unavailable("the core went away"))]);
        Ok(batches.take(breaks_after).chain(broken).boxed())
    }
}
