//! The streams that are open at this core, by the sessions of edges and by their keys. A stream ends when its key loses
//! its rights, when the session of its person ends, when this core loses its place or cannot check keys any more, when
//! its ticket opens another stream, or when this core stops.
//!
//! There may be very many streams. A change of rights is checked once for each key, and no lock is held while all
//! streams or all keys are visited.
//!
//! The closings of streams that tickets opened are queued here, whatever the reason: the ticket must know. Only a
//! stream that its ticket's next one replaces needs none.

mod by_key;
mod session;
#[cfg(test)]
mod tests;

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use thesis_net::clock::SharedClock;
use thesis_proto::v1::{StreamEnd, StreamEndReason};
use tokio::{
    sync::{Notify, mpsc},
    task::yield_now,
    time::sleep,
};
use tokio_util::sync::CancellationToken;

pub use self::session::HeldStream;
use self::{
    by_key::{StreamId, StreamsByKey},
    session::Session,
};
use super::gate::Gate;
use crate::{
    control::Control,
    domain::operation::Operation,
    replicas::{members::Members, stream_slots::StreamSlot},
};

/// Interval between two checks of new streams.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of streams that are checked or removed under one lock of the sessions.
const MAX_TOGETHER: usize = 1_000;

/// The closing of a stream that a ticket opened.
#[derive(Debug)]
pub struct TicketClosing {
    /// The hash of the ticket.
    pub ticket: String,
    pub session: Arc<str>,
    pub stream: u64,
    /// In unix milliseconds.
    pub closed_at: i64,
}

pub struct OpenStreams {
    gate: Arc<Gate>,
    control: Arc<Control>,
    members: Arc<Members>,
    clock: SharedClock,
    sessions: Mutex<HashMap<Arc<str>, Session>>,
    by_key: StreamsByKey,
    /// Streams that have not been checked since they were added: their rights may have ended just before.
    unchecked: Mutex<Vec<StreamId>>,
    /// Wakes the check when a new key expires sooner than the known ones.
    expiring: Notify,
    closings: Mutex<VecDeque<TicketClosing>>,
    /// Wakes the task that notes closings.
    has_closings: Notify,
}

/// A session of an edge. Dropping it removes its streams.
pub struct SessionGuard {
    streams: Arc<OpenStreams>,
    session: Arc<str>,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let session = self.streams.sessions.lock().remove(&self.session);
        if let Some(session) = session {
            self.streams.forget_session(session);
        }
    }
}

impl OpenStreams {
    pub fn new(gate: Arc<Gate>, control: Arc<Control>, members: Arc<Members>, clock: SharedClock) -> Arc<Self> {
        Arc::new(Self {
            gate,
            control,
            members,
            clock,
            sessions: Mutex::default(),
            by_key: StreamsByKey::default(),
            unchecked: Mutex::default(),
            expiring: Notify::new(),
            closings: Mutex::default(),
            has_closings: Notify::new(),
        })
    }

    /// Begins a session, and returns the channel of its streams' ends. An earlier session of this name has ended.
    #[must_use]
    pub fn begin(self: &Arc<Self>, session: &str) -> (SessionGuard, mpsc::UnboundedReceiver<StreamEnd>) {
        let (ends, receiver) = mpsc::unbounded_channel();
        let name: Arc<str> = session.into();
        let earlier = self.sessions.lock().insert(Arc::clone(&name), Session::new(Arc::clone(&name), ends));
        if let Some(earlier) = earlier {
            self.forget_session(earlier);
        }
        (SessionGuard { streams: Arc::clone(self), session: name }, receiver)
    }

    /// Forgets the streams of a session that has ended. Their places are given back without a lock.
    fn forget_session(&self, session: Session) {
        let name = session.name();
        for (stream, held) in session.into_streams() {
            self.forget((Arc::clone(&name), stream), held);
        }
    }

    /// Forgets a stream that has left its session.
    fn forget(&self, id: StreamId, held: HeldStream) {
        self.by_key.remove(&held.key_id, &id);
        if let Some(ticket) = held.ticket {
            self.add_closing(ticket, id);
        }
    }

    /// Queues that a stream of a ticket is not open any more.
    pub fn add_closing(&self, ticket: String, (session, stream): (Arc<str>, u64)) {
        let closed_at = self.clock.now_ms();
        self.closings.lock().push_back(TicketClosing { ticket, session, stream, closed_at });
        self.has_closings.notify_one();
    }

    /// Takes closings from the queue, the oldest first.
    pub fn take_closings(&self, limit: usize) -> Vec<TicketClosing> {
        let mut closings = self.closings.lock();
        let number = closings.len().min(limit);
        let taken = closings.drain(..number).collect();
        if !closings.is_empty() {
            self.has_closings.notify_one();
        }
        taken
    }

    /// Puts closings back that could not be noted.
    pub fn put_closings_back(&self, closings: Vec<TicketClosing>) {
        self.closings.lock().extend(closings);
    }

    /// Waits until there may be closings in the queue.
    pub async fn await_closings(&self) {
        self.has_closings.notified().await;
    }

    pub fn knows(&self, session: &str) -> bool {
        self.sessions.lock().contains_key(session)
    }

    /// Adds an open stream. Returns it as the error if its session has ended or it was closed in the meantime.
    pub fn add(&self, session: &str, stream: u64, held: HeldStream) -> Result<(), HeldStream> {
        let (key_id, expires_at) = (Arc::clone(&held.key_id), held.expires_at);
        let mut sessions = self.sessions.lock();
        let Some(session) = sessions.get_mut(session) else { return Err(held) };
        session.add(stream, held)?;
        let id = (session.name(), stream);
        // Under the lock, so that nobody ends the stream before its key lists it.
        let is_first_to_expire = self.by_key.add(&key_id, expires_at, id.clone());
        drop(sessions);
        self.unchecked.lock().push(id);
        if is_first_to_expire {
            self.expiring.notify_one();
        }
        Ok(())
    }

    /// Adds the slot of a replay. Returns the slot as the error if its session has ended or the replay was closed in
    /// the meantime.
    pub fn add_replay(&self, session: &str, replay: u64, slot: StreamSlot) -> Result<(), StreamSlot> {
        match self.sessions.lock().get_mut(session) {
            Some(session) => session.add_replay(replay, slot),
            None => Err(slot),
        }
    }

    /// The ticket that opened a stream.
    pub fn ticket_of(&self, session: &str, stream: u64) -> Option<String> {
        self.sessions.lock().get(session)?.get(stream)?.ticket.clone()
    }

    pub fn key_of(&self, session: &str, stream: u64) -> Option<Arc<str>> {
        Some(Arc::clone(&self.sessions.lock().get(session)?.get(stream)?.key_id))
    }

    /// Removes streams that their clients have closed, and finished replays.
    pub fn close(&self, session: &str, streams: &[u64]) {
        for streams in streams.chunks(MAX_TOGETHER) {
            let (mut closed, mut replays) = (Vec::new(), Vec::new());
            let mut sessions = self.sessions.lock();
            let Some(session) = sessions.get_mut(session) else { return };
            let name = session.name();
            for stream in streams {
                match session.remove_replay(*stream) {
                    Some(slot) => replays.push(slot),
                    None => closed.extend(session.remove_or_note(*stream).map(|held| (*stream, held))),
                }
            }
            drop(sessions);
            drop(replays);
            for (stream, held) in closed {
                self.forget((Arc::clone(&name), stream), held);
            }
        }
    }

    /// Ends a stream that another one replaces.
    pub fn replace(&self, session: &str, stream: u64) {
        let mut sessions = self.sessions.lock();
        let Some(session) = sessions.get_mut(session) else { return };
        let name = session.name();
        let ended = session.remove_or_note(stream);
        if ended.is_some() {
            session.send_end(stream, StreamEndReason::Replaced);
        }
        drop(sessions);
        if let Some(held) = ended {
            self.by_key.remove(&held.key_id, &(name, stream));
        }
    }

    /// The sessions with streams that tickets opened.
    pub fn ticket_sessions(&self) -> Vec<Arc<str>> {
        let sessions = self.sessions.lock();
        sessions.values().filter(|session| session.has_tickets()).map(Session::name).collect()
    }

    /// The [`key_id`](super::gate::Caller::key_id) of every caller with an open stream.
    pub fn keys(&self) -> Vec<Arc<str>> {
        self.by_key.shards().flat_map(|shard| self.by_key.keys(shard)).collect()
    }

    /// Ends the streams that a key opened.
    pub fn revoke(&self, key_id: &str) {
        self.end(&self.by_key.streams(key_id), |_| Some(StreamEndReason::Revoked));
    }

    /// Ends those of some streams for which `judge` returns a reason.
    fn end(&self, streams: &[StreamId], judge: impl Fn(&HeldStream) -> Option<StreamEndReason>) {
        for streams in streams.chunks(MAX_TOGETHER) {
            let mut ended = Vec::new();
            let mut sessions = self.sessions.lock();
            for id in streams {
                let (name, stream) = id;
                let Some(session) = sessions.get_mut(name) else { continue };
                let Some(reason) = session.get(*stream).and_then(&judge) else { continue };
                session.send_end(*stream, reason);
                ended.extend(session.remove(*stream).map(|held| (id.clone(), held)));
            }
            drop(sessions);
            for (id, held) in ended {
                self.forget(id, held);
            }
        }
    }

    /// The reason why a stream must end now.
    fn judge(&self, held: &HeldStream) -> Option<StreamEndReason> {
        if !self.control.is_current() || held.slot.is_lost() {
            Some(StreamEndReason::ShuttingDown)
        } else if !self.gate.still_admits(&held.key_id, Operation::Open) {
            Some(StreamEndReason::Revoked)
        } else {
            None
        }
    }

    /// Ends the streams that must end; when this core stops, all of them.
    pub async fn run(&self, stop: &CancellationToken) {
        let (mut changes, mut current) = (self.control.changes(), self.control.current());
        let mut term = self.members.term();
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                () = term.cancelled() => {}
                Ok(()) = changes.changed() => self.end_due().await,
                Ok(()) = current.changed() => self.end_due().await,
                () = self.expiring.notified() => {}
                () = sleep(self.pause()) => {}
            }
            self.end_new_and_expired();
            // It may have lapsed during any of these steps. From here on the next term counts.
            if term.is_cancelled() {
                term = self.members.term();
                self.end_all(|held| self.judge(held)).await;
            }
        }
        self.end_all(|_| Some(StreamEndReason::ShuttingDown)).await;
    }

    /// Time until the next check. It comes at the moment at which the next key expires.
    fn pause(&self) -> Duration {
        let next = self.by_key.next_expiry().unwrap_or(i64::MAX);
        let left = next.saturating_sub(self.clock.now_ms());
        Duration::from_millis(left.max(1).unsigned_abs()).min(POLL_INTERVAL)
    }

    /// Ends the streams of keys without rights, or all if the rights are not known.
    async fn end_due(&self) {
        for shard in self.by_key.shards() {
            for key in self.by_key.keys(shard) {
                if !self.control.is_current() || !self.gate.still_admits(&key, Operation::Open) {
                    self.end(&self.by_key.streams(&key), |held| self.judge(held));
                }
            }
            yield_now().await;
        }
    }

    /// Checks the streams that were added since the last check, and those of keys that have expired.
    fn end_new_and_expired(&self) {
        let mut streams = std::mem::take(&mut *self.unchecked.lock());
        for key in self.by_key.expired(self.clock.now_ms()) {
            streams.extend(self.by_key.streams(&key));
        }
        self.end(&streams, |held| self.judge(held));
    }

    /// Judges every stream.
    async fn end_all(&self, judge: impl Fn(&HeldStream) -> Option<StreamEndReason>) {
        for shard in self.by_key.shards() {
            for key in self.by_key.keys(shard) {
                self.end(&self.by_key.streams(&key), &judge);
            }
            yield_now().await;
        }
    }
}
