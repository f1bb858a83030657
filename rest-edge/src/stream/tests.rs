//! Streams against a core with a log that grows.

mod slow;
mod socket;
mod sse;

use std::sync::Arc;

use futures::{StreamExt as _, stream::unfold};
use parking_lot::Mutex;
use prost::Message as _;
use thesis_proto::{cursor::StreamCursor, v1};
use tokio::sync::watch;

use crate::tests::fake::{FakeCore, Reply, begin, event, reply};

/// The log of a dataset. True entries are events. The first entry has position 1.
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

    fn events(&self, after: u64, upto: u64) -> Vec<v1::TailEvent> {
        let entries = self.entries.lock();
        let positions = (1..).zip(entries.iter()).filter(|(position, is_event)| **is_event && *position > after);
        let positions = positions.map(|(position, _)| position).take_while(|position| *position <= upto);
        positions.map(|position| v1::TailEvent { position, event: Some(event(position)) }).collect()
    }

    /// Serves `Tail` of this dataset.
    fn tail(self: &Arc<Self>, request: &[u8]) -> Reply {
        let from = v1::TailRequest::decode(request).unwrap().after.remove(0);
        let start = (Arc::clone(self), self.head.subscribe(), from);
        let messages = unfold(start, |(log, mut head, mut from)| async move {
            let reached = *head.wait_for(|head| *head > from.position).await.unwrap();
            let (after, events) = (from.position, log.events(from.position, reached));
            from.position = reached;
            let dataset = from.dataset.clone();
            let message = v1::TailResponse { dataset, events, position: reached, after, erased: 0 };
            Some((Ok(message.encode_to_vec().into()), (log, head, from)))
        });
        Ok(messages.boxed())
    }

    /// Serves `Read`.
    fn read(&self, request: &[u8]) -> Reply {
        let after = v1::ReadRequest::decode(request).unwrap().after;
        let position = *self.head.borrow();
        reply(v1::ReadResponse { events: self.events(after, position), position })
    }
}

/// A core whose streams start after `from` in the dataset `sandbox`, whose head is `live`.
pub(super) fn core(log: &Arc<Log>, from: u64, live: u64, gap: Option<v1::StreamGap>) -> Arc<FakeCore> {
    let log = Arc::clone(log);
    FakeCore::new(move |operation, request| match operation {
        "StreamService/Tail" => log.tail(request),
        "StreamService/Read" => log.read(request),
        _ => reply(begin(&[("sandbox", from)], &[("sandbox", live)], gap.clone())),
    })
}

/// A core whose streams replay the first two entries of the dataset `sandbox`.
pub(super) fn replaying(log: &Arc<Log>, is_complete: bool) -> Arc<FakeCore> {
    let log = Arc::clone(log);
    FakeCore::new(move |operation, request| match operation {
        "StreamService/Tail" => log.tail(request),
        "StreamService/Read" => log.read(request),
        _ => {
            let replay = v1::StreamReplay { ends: vec![2], is_complete, ..v1::StreamReplay::default() };
            let begin = begin(&[("sandbox", 0)], &[("sandbox", 3)], None);
            reply(v1::OpenResponse { replay: Some(replay), ..begin })
        }
    })
}

/// The cursor of a position in the dataset `sandbox`.
pub(super) fn cursor(position: u64) -> String {
    StreamCursor { positions: vec![position] }.encode(&["sandbox".to_owned()])
}
