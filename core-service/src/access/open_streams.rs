//! The streams that are open at this core, by the sessions of edges. A stream ends when its key loses its rights, when
//! the session of its person ends, when this core loses its place or cannot check keys any more, when its ticket opens
//! another stream, or when this core stops.

#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use thesis_net::clock::SharedClock;
use thesis_proto::v1::{StreamEnd, StreamEndReason};
use tokio::{
    sync::{Notify, mpsc},
    time::sleep,
};
use tokio_util::sync::CancellationToken;

use super::gate::Gate;
use crate::{control::Control, domain::operation::Operation, replicas::stream_slots::StreamSlot};

/// Interval between two checks for streams that must end.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of early closings that a session keeps: closings of streams that are not open yet.
const MAX_EARLY_CLOSINGS: usize = 1_024;

pub struct HeldStream {
    /// The [`key_id`](super::gate::Caller::key_id) of the caller that opened it.
    pub key_id: Arc<str>,
    /// The time at which the key expires, in unix milliseconds.
    pub expires_at: Option<i64>,
    /// The stream's place among the project's open streams.
    pub slot: StreamSlot,
    /// The hash of the ticket that opened the stream.
    pub ticket: Option<String>,
}

struct Session {
    ends: mpsc::UnboundedSender<StreamEnd>,
    streams: HashMap<u64, HeldStream>,
    /// Streams that were closed before they were open.
    closed_early: VecDeque<u64>,
}

impl Session {
    /// Ends the streams for which `judge` returns a reason.
    fn end(&mut self, judge: impl Fn(&HeldStream) -> Option<StreamEndReason>) {
        let Self { ends, streams, .. } = self;
        streams.retain(|stream, held| {
            let Some(reason) = judge(held) else { return true };
            // Without a receiver, the session and all its streams have ended.
            let _gone = ends.send(StreamEnd { stream: *stream, reason: reason.into() });
            false
        });
    }

    /// Notes that a stream was closed before it was open.
    fn close_early(&mut self, stream: u64) {
        self.closed_early.push_back(stream);
        if self.closed_early.len() > MAX_EARLY_CLOSINGS {
            self.closed_early.pop_front();
        }
    }
}

pub struct OpenStreams {
    gate: Arc<Gate>,
    control: Arc<Control>,
    clock: SharedClock,
    sessions: Mutex<HashMap<String, Session>>,
    /// The time at which the first of the streams' keys expires, in unix milliseconds.
    next_expiry: AtomicI64,
    /// Wakes the check when a new key expires sooner than the known ones.
    expiring: Notify,
}

/// A session of an edge. Dropping it removes its streams.
pub struct SessionGuard {
    streams: Arc<OpenStreams>,
    session: String,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let session = self.streams.sessions.lock().remove(&self.session);
        // The places are given back outside the lock.
        drop(session);
    }
}

impl OpenStreams {
    pub fn new(gate: Arc<Gate>, control: Arc<Control>, clock: SharedClock) -> Arc<Self> {
        let next_expiry = AtomicI64::new(i64::MAX);
        Arc::new(Self { gate, control, clock, sessions: Mutex::default(), next_expiry, expiring: Notify::new() })
    }

    /// Begins a session, and returns the channel of its streams' ends. An earlier session of this name has ended.
    #[must_use]
    pub fn begin(self: &Arc<Self>, session: &str) -> (SessionGuard, mpsc::UnboundedReceiver<StreamEnd>) {
        let (ends, receiver) = mpsc::unbounded_channel();
        let new = Session { ends, streams: HashMap::new(), closed_early: VecDeque::new() };
        let earlier = self.sessions.lock().insert(session.to_owned(), new);
        drop(earlier);
        (SessionGuard { streams: Arc::clone(self), session: session.to_owned() }, receiver)
    }

    pub fn knows(&self, session: &str) -> bool {
        self.sessions.lock().contains_key(session)
    }

    /// Adds an open stream. Returns it as the error if its session has ended or it was closed in the meantime.
    pub fn add(&self, session: &str, stream: u64, held: HeldStream) -> Result<(), HeldStream> {
        let expires_at = held.expires_at.unwrap_or(i64::MAX);
        let mut sessions = self.sessions.lock();
        let Some(session) = sessions.get_mut(session) else { return Err(held) };
        if session.closed_early.contains(&stream) {
            return Err(held);
        }
        session.streams.insert(stream, held);
        drop(sessions);
        if self.next_expiry.fetch_min(expires_at, Ordering::Relaxed) > expires_at {
            self.expiring.notify_one();
        }
        Ok(())
    }

    pub fn key_of(&self, session: &str, stream: u64) -> Option<Arc<str>> {
        Some(Arc::clone(&self.sessions.lock().get(session)?.streams.get(&stream)?.key_id))
    }

    /// Removes streams that their clients have closed. Returns the tickets that opened them.
    pub fn close(&self, session: &str, streams: &[u64]) -> Vec<(String, u64)> {
        let mut closed = Vec::new();
        let mut sessions = self.sessions.lock();
        let Some(session) = sessions.get_mut(session) else { return Vec::new() };
        for stream in streams {
            match session.streams.remove(stream) {
                Some(held) => closed.push((*stream, held)),
                None => session.close_early(*stream),
            }
        }
        drop(sessions);
        closed.into_iter().filter_map(|(stream, held)| Some((held.ticket?, stream))).collect()
    }

    /// Ends a stream that another one replaces.
    pub fn replace(&self, session: &str, stream: u64) {
        let mut sessions = self.sessions.lock();
        let Some(session) = sessions.get_mut(session) else { return };
        match session.streams.remove(&stream) {
            Some(_) => {
                let _gone = session.ends.send(StreamEnd { stream, reason: StreamEndReason::Replaced.into() });
            }
            None => session.close_early(stream),
        }
    }

    /// True if tickets opened any of the streams.
    pub fn have_tickets(&self) -> bool {
        let sessions = self.sessions.lock();
        sessions.values().any(|session| session.streams.values().any(|held| held.ticket.is_some()))
    }

    /// The tickets that opened streams, each with its session and stream.
    pub fn tickets(&self) -> Vec<(String, String, u64)> {
        let sessions = self.sessions.lock();
        let of = |(name, session): (&String, &Session)| -> Vec<_> {
            let ticket = |(stream, held): (&u64, &HeldStream)| Some((held.ticket.clone()?, name.clone(), *stream));
            session.streams.iter().filter_map(ticket).collect()
        };
        sessions.iter().flat_map(of).collect()
    }

    /// The [`key_id`](super::gate::Caller::key_id) of every caller with an open stream.
    pub fn keys(&self) -> HashSet<Arc<str>> {
        keys(&self.sessions.lock())
    }

    /// Ends the streams that a key opened.
    pub fn revoke(&self, key_id: &str) {
        for session in self.sessions.lock().values_mut() {
            session.end(|held| (*held.key_id == *key_id).then_some(StreamEndReason::Revoked));
        }
    }

    /// Ends the streams that must end; when this core stops, all of them.
    pub async fn run(&self, stop: &CancellationToken) {
        let (mut changes, mut current) = (self.control.changes(), self.control.current());
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                Ok(()) = changes.changed() => {}
                Ok(()) = current.changed() => {}
                () = self.expiring.notified() => continue,
                () = sleep(self.pause()) => {}
            }
            self.end_due();
        }
        for session in self.sessions.lock().values_mut() {
            session.end(|_| Some(StreamEndReason::ShuttingDown));
        }
    }

    /// Time until the next check. It comes at the moment at which the next key expires.
    fn pause(&self) -> Duration {
        let left = self.next_expiry.load(Ordering::Relaxed).saturating_sub(self.clock.now_ms());
        Duration::from_millis(left.max(1).unsigned_abs()).min(POLL_INTERVAL)
    }

    fn end_due(&self) {
        let is_current = self.control.is_current();
        let mut sessions = self.sessions.lock();
        let admitted: HashSet<Arc<str>> =
            keys(&sessions).into_iter().filter(|key| self.gate.still_admits(key, Operation::Open)).collect();
        for session in sessions.values_mut() {
            session.end(|held| {
                if !is_current || held.slot.is_lost() {
                    Some(StreamEndReason::ShuttingDown)
                } else if !admitted.contains(&held.key_id) {
                    Some(StreamEndReason::Revoked)
                } else {
                    None
                }
            });
        }
        let left = sessions.values().flat_map(|session| session.streams.values());
        let next = left.filter_map(|held| held.expires_at).min().unwrap_or(i64::MAX);
        self.next_expiry.store(next, Ordering::Relaxed);
    }
}

fn keys(sessions: &HashMap<String, Session>) -> HashSet<Arc<str>> {
    let held = sessions.values().flat_map(|session| session.streams.values());
    held.map(|held| Arc::clone(&held.key_id)).collect()
}
