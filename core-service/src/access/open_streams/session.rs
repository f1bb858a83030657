//! The streams of one session of an edge.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use thesis_proto::v1::{StreamEnd, StreamEndReason};
use tokio::sync::mpsc;

use crate::replicas::stream_slots::StreamSlot;

/// Maximum number of early closings that a session keeps: closings of streams that are not open yet.
const MAX_EARLY_CLOSINGS: usize = 1_024;

pub struct HeldStream {
    /// The [`key_id`](crate::access::gate::Caller::key_id) of the caller that opened it.
    pub key_id: Arc<str>,
    /// The time at which the key expires, in unix milliseconds.
    pub expires_at: Option<i64>,
    /// The stream's place among the project's open streams.
    pub slot: StreamSlot,
    /// The hash of the ticket that opened the stream.
    pub ticket: Option<String>,
}

pub(super) struct Session {
    name: Arc<str>,
    ends: mpsc::UnboundedSender<StreamEnd>,
    streams: HashMap<u64, HeldStream>,
    /// The slots of replays by id. Streams and replays share one range of ids.
    replays: HashMap<u64, StreamSlot>,
    /// Number of streams that tickets opened.
    tickets: usize,
    /// Streams that were closed before they were open.
    closed_early: VecDeque<u64>,
}

impl Session {
    pub(super) fn new(name: Arc<str>, ends: mpsc::UnboundedSender<StreamEnd>) -> Self {
        let (streams, replays) = (HashMap::new(), HashMap::new());
        Self { name, ends, streams, replays, tickets: 0, closed_early: VecDeque::new() }
    }

    pub(super) fn name(&self) -> Arc<str> {
        Arc::clone(&self.name)
    }

    pub(super) fn get(&self, stream: u64) -> Option<&HeldStream> {
        self.streams.get(&stream)
    }

    pub(super) const fn has_tickets(&self) -> bool {
        self.tickets > 0
    }

    /// Adds an open stream. Returns it as the error if it was closed in the meantime.
    pub(super) fn add(&mut self, stream: u64, held: HeldStream) -> Result<(), HeldStream> {
        if self.closed_early.contains(&stream) {
            return Err(held);
        }
        self.tickets += usize::from(held.ticket.is_some());
        self.streams.insert(stream, held);
        Ok(())
    }

    /// Adds the slot of a replay. Returns the slot as the error if the replay was closed in the meantime.
    pub(super) fn add_replay(&mut self, replay: u64, slot: StreamSlot) -> Result<(), StreamSlot> {
        if self.closed_early.contains(&replay) {
            return Err(slot);
        }
        self.replays.insert(replay, slot);
        Ok(())
    }

    pub(super) fn remove_replay(&mut self, replay: u64) -> Option<StreamSlot> {
        self.replays.remove(&replay)
    }

    pub(super) fn remove(&mut self, stream: u64) -> Option<HeldStream> {
        let held = self.streams.remove(&stream)?;
        self.tickets -= usize::from(held.ticket.is_some());
        Some(held)
    }

    /// Removes a stream, or notes that it was closed before it was open.
    pub(super) fn remove_or_note(&mut self, stream: u64) -> Option<HeldStream> {
        let removed = self.remove(stream);
        if removed.is_none() {
            self.closed_early.push_back(stream);
            if self.closed_early.len() > MAX_EARLY_CLOSINGS {
                self.closed_early.pop_front();
            }
        }
        removed
    }

    pub(super) fn send_end(&self, stream: u64, reason: StreamEndReason) {
        // Without a receiver, the session and all its streams have ended.
        let _gone = self.ends.send(StreamEnd { stream, reason: reason.into() });
    }

    pub(super) fn into_streams(self) -> HashMap<u64, HeldStream> {
        self.streams
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_keeps_its_last_early_closings() {
        let mut session = Session::new("s".into(), mpsc::unbounded_channel().0);
        assert!((0..=1_024).all(|stream| session.remove_or_note(stream).is_none()));
        assert_eq!((session.closed_early.len(), session.closed_early.front()), (1_024, Some(&1)));
        assert!(!session.has_tickets());
    }
}
