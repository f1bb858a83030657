//! The cores that live. Each core writes a heartbeat with its address and its state.
//!
//! A watcher measures on its own clock how long it sees the same heartbeat, so clocks need not agree. There are two
//! timeouts. After [`OWNER_MS`] without a heartbeat a core owns nothing. Its streams' places count for longer: a core
//! without a heartbeat for [`LEASE_MS`] ends its streams, and after [`GONE_MS`] other cores no longer count them. The
//! leases of webhook shards last for the same times, so they need no renewal. For these leases alone a watcher judges
//! the first heartbeat that it sees by its time, which may be [`LEASE_MS`] ago. So a new core must not have a clock that
//! is more than [`CLOCK_SKEW_MS`] ahead of the others: it could take their shards, and attempts might be sent twice
//! until they notice it.
//!
//! On the embedded store there is one core, and no heartbeats.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    mem::{replace, take},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use thesis_net::clock::{Clock, SharedClock};
use tokio::{
    sync::{Notify, watch},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::shard_cores;
use crate::{
    domain::{id, window::CLOCK_SKEW_MS},
    store::{SharedBackend, StoreResult},
    tables::members::{self, HEARTBEAT_RETENTION_SECONDS, Heartbeat, Member, SearchPart},
};

/// Interval in which a core writes its heartbeat and reads the others'.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Interval in which a core checks whether its own heartbeat lapsed.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Time without a new heartbeat after which a core owns nothing, in milliseconds.
pub const OWNER_MS: i64 = 3_000;
/// Maximum age of the own heartbeat for a new stream, in milliseconds. Later the stream might have to end at once.
const LATE_MS: i64 = 4_000;
/// Time without a heartbeat after which a core ends its streams, in milliseconds.
pub(super) const LEASE_MS: i64 = 9_000;
/// Time without a new heartbeat after which a core has no streams and hands out no attempts, in milliseconds. Attempts
/// that it handed out before may still be under way.
pub const GONE_MS: i64 = 11_000;
const _: () = assert!(LEASE_MS + CLOCK_SKEW_MS <= GONE_MS, "no clock of another core ends a lease early");

#[derive(Clone, Debug)]
struct SeenBeat {
    beat: i64,
    /// The time since which this core sees the heartbeat.
    since: i64,
    /// True once a newer heartbeat came: the age of the first one is not known.
    has_moved: bool,
    member: Member,
}

impl SeenBeat {
    /// True if a new heartbeat came within the timeout.
    fn is_alive(&self, now_ms: i64, timeout_ms: i64) -> bool {
        self.has_moved && !self.member.is_gone && now_ms - self.since < timeout_ms
    }

    /// True unless the core is certainly gone: a first heartbeat may be new.
    fn may_live(&self, now_ms: i64) -> bool {
        !self.member.is_gone && now_ms - self.since < GONE_MS
    }

    /// True if the core certainly hands out nothing. The number of a first heartbeat is nearly its time by the clock of
    /// its core. So a core that ended before this core started has certainly lapsed.
    fn has_lapsed(&self, now_ms: i64) -> bool {
        !self.may_live(now_ms) || !self.has_moved && now_ms - self.beat >= GONE_MS
    }
}

#[derive(Debug, Default)]
struct State {
    own: Member,
    number: i64,
    /// The time at which the last heartbeat was sent that surely arrived.
    beat_at: Option<i64>,
    /// Cancelled when streams must end because the heartbeat lapsed.
    term: CancellationToken,
    others: HashMap<String, SeenBeat>,
}

impl State {
    /// Ends the term if the heartbeat has lapsed. It reads the clock itself, so the time is that under the lock.
    fn end_lapsed(&mut self, clock: &dyn Clock) {
        let now_ms = clock.now_ms();
        if self.beat_at.is_some_and(|at| now_ms - at >= LEASE_MS) {
            tracing::warn!("this core's beat did not arrive for too long: its streams end");
            self.beat_at = None;
            take(&mut self.term).cancel();
        }
    }
}

/// The cores, as this core sees them.
pub struct Members {
    backend: SharedBackend,
    clock: SharedClock,
    replica: String,
    state: Mutex<State>,
    beat_now: Notify,
    others: watch::Sender<Vec<OtherCore>>,
    has_read_beats: AtomicBool,
    /// The cores that hand out attempts, and the choice of [`Self::shard_cores`] among them.
    shard_cores: Mutex<(Vec<String>, Arc<[String]>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherCore {
    pub replica: String,
    /// The gRPC URL at which other cores reach it.
    pub address: String,
    /// True if it may own logs, because its heartbeat is recent.
    pub owns: bool,
    pub search: Option<SearchPart>,
}

/// Chooses one of some cores for an object by rendezvous hashing. Every caller that knows the same cores chooses the
/// same one.
pub fn first_of<'a>(cores: impl IntoIterator<Item = &'a str>, thing: &str) -> Option<&'a str> {
    cores.into_iter().max_by_key(|core| id::derive("", &[core, thing]))
}

impl Members {
    /// Creates the view of this core, which others reach at the gRPC URL `address`.
    pub fn new(backend: SharedBackend, clock: SharedClock, replica: String, address: String) -> Arc<Self> {
        let state = State { own: Member { address, ..Member::default() }, ..State::default() };
        let (others, has_read_beats) = (watch::Sender::new(Vec::new()), AtomicBool::new(false));
        Arc::new(Self {
            backend,
            clock,
            replica,
            state: Mutex::new(state),
            beat_now: Notify::new(),
            others,
            has_read_beats,
            shard_cores: Mutex::default(),
        })
    }

    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// The gRPC URL at which other cores reach this one; empty when they cannot.
    pub fn address(&self) -> String {
        self.state.lock().own.address.clone()
    }

    /// True if no other core can exist.
    pub fn is_alone(&self) -> bool {
        self.backend.is_exclusive()
    }

    /// A token that is cancelled when this core's heartbeat lapses: streams that others no longer count must end.
    pub fn term(&self) -> CancellationToken {
        self.state.lock().term.clone()
    }

    /// True if no other core can have taken what this core has taken in a term.
    pub fn holds(&self, term: &CancellationToken, now_ms: i64) -> bool {
        let state = self.state.lock();
        !term.is_cancelled() && state.beat_at.is_some_and(|at| now_ms - at < LEASE_MS)
    }

    /// Finds the cores among these that certainly hand out nothing any more.
    pub async fn lapsed(&self, cores: &[String]) -> StoreResult<Vec<String>> {
        // Reads may have failed for a while.
        self.read_beats(std::iter::empty()).await?;
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        let has_lapsed = |core: &&String| state.others.get(*core).is_none_or(|seen| seen.has_lapsed(now_ms));
        Ok(cores.iter().filter(has_lapsed).cloned().collect())
    }

    /// True if this core's last heartbeat is too old for a new stream.
    pub fn is_late(&self) -> bool {
        let now_ms = self.clock.now_ms();
        !self.is_alone() && self.state.lock().beat_at.is_none_or(|at| now_ms - at >= LATE_MS)
    }

    /// True if this core's heartbeat says that it hands out attempts.
    pub fn is_handing_out(&self) -> bool {
        self.state.lock().own.hands_out
    }

    /// Publishes with the heartbeat whether this core hands out attempts.
    pub fn set_handing_out(&self, does: bool) {
        let was = replace(&mut self.state.lock().own.hands_out, does);
        if was != does {
            self.beat_now.notify_one();
        }
    }

    /// Publishes with the heartbeat which part of the search index this core has.
    pub fn set_search(&self, part: SearchPart) {
        let part = Some(part);
        let was = replace(&mut self.state.lock().own.search, part.clone());
        if was != part {
            self.beat_now.notify_one();
        }
    }

    /// The cores that live and hand out attempts, this one included if it does.
    pub fn handing_out(&self) -> Vec<String> {
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        let others = state.others.iter().filter(|(_, seen)| seen.member.hands_out && seen.is_alive(now_ms, GONE_MS));
        let own = state.own.hands_out.then(|| self.replica.clone());
        others.map(|(replica, _)| replica.clone()).chain(own).collect()
    }

    /// The core of each shard of webhooks, by the number of the shard; empty while no core hands out attempts.
    pub fn shard_cores(&self) -> Arc<[String]> {
        let mut cores = self.handing_out();
        cores.sort_unstable();
        let mut known = self.shard_cores.lock();
        if known.0 != cores {
            let chosen = shard_cores::choose(&cores).into();
            *known = (cores, chosen);
        }
        Arc::clone(&known.1)
    }

    pub fn others(&self) -> watch::Receiver<Vec<OtherCore>> {
        self.others.subscribe()
    }

    pub fn has_read_beats(&self) -> bool {
        self.has_read_beats.load(Ordering::Relaxed)
    }

    /// True if this core may own logs, because its heartbeat is recent.
    pub fn owns(&self) -> bool {
        let now_ms = self.clock.now_ms();
        self.is_alone() || self.state.lock().beat_at.is_some_and(|at| now_ms - at < OWNER_MS)
    }

    /// True unless a core is certainly gone. A core with a single heartbeat so far may live.
    pub fn may_live(&self, replica: &str) -> bool {
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        replica == self.replica || state.others.get(replica).is_some_and(|seen| seen.may_live(now_ms))
    }

    /// True if a core certainly owns nothing.
    pub fn is_dead(&self, replica: &str) -> bool {
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        let is_over = |seen: &SeenBeat| !seen.may_live(now_ms) || seen.has_moved && !seen.is_alive(now_ms, OWNER_MS);
        replica != self.replica && self.has_read_beats() && state.others.get(replica).is_none_or(is_over)
    }

    /// Reads the others' heartbeats. For the `named` cores, a missing heartbeat counts as one that does not change.
    pub async fn read_beats<'a>(&self, named: impl IntoIterator<Item = &'a String>) -> StoreResult<()> {
        if self.is_alone() {
            return Ok(());
        }
        let beats = members::read_heartbeats(&self.backend).await?;
        let now_ms = self.clock.now_ms();
        let mut state = self.state.lock();
        state.others.retain(|_, seen| now_ms - seen.since < i64::from(HEARTBEAT_RETENTION_SECONDS) * 1_000);
        for Heartbeat { replica, number, member } in beats.into_iter().filter(|beat| beat.replica != self.replica) {
            let new = || SeenBeat { beat: number, since: now_ms, has_moved: false, member: member.clone() };
            let seen = state.others.entry(replica).or_insert_with(new);
            // An older read may arrive after a newer one.
            if number > seen.beat {
                *seen = SeenBeat { has_moved: true, ..new() };
            }
        }
        for replica in named {
            let missing = || SeenBeat { beat: 0, since: now_ms, has_moved: false, member: Member::default() };
            state.others.entry(replica.clone()).or_insert_with(missing);
        }
        drop(state);
        // The first read is published even if there is no other core.
        let is_first = !self.has_read_beats.swap(true, Ordering::Relaxed);
        self.publish_others(now_ms, is_first);
        Ok(())
    }

    fn publish_others(&self, now_ms: i64, is_first_read: bool) {
        let mut others: Vec<OtherCore> = {
            let state = self.state.lock();
            let live = state.others.iter().filter(|(_, seen)| seen.may_live(now_ms));
            let other = |(replica, seen): (&String, &SeenBeat)| OtherCore {
                replica: replica.clone(),
                address: seen.member.address.clone(),
                owns: seen.is_alive(now_ms, OWNER_MS),
                search: seen.member.search.clone(),
            };
            live.map(other).collect()
        };
        others.sort_unstable_by(|one, other| one.replica.cmp(&other.replica));
        self.others.send_if_modified(|known| {
            let changes = *known != others;
            *known = others;
            changes || is_first_read
        });
    }

    pub async fn send_heartbeat(&self) -> StoreResult<()> {
        if self.is_alone() {
            return Ok(());
        }
        let sent_at = self.clock.now_ms();
        let beat = {
            let mut state = self.state.lock();
            state.number = sent_at.max(state.number + 1);
            Heartbeat { replica: self.replica.clone(), number: state.number, member: state.own.clone() }
        };
        members::write_heartbeat(&self.backend, &beat).await?;
        let mut state = self.state.lock();
        // Streams from before a lapse end, even if this core notices the lapse late. The lock stays held: whoever finds
        // that a lease has lapsed must also find that its term ends.
        state.end_lapsed(self.clock.as_ref());
        state.beat_at = state.beat_at.max(Some(sent_at));
        Ok(())
    }

    /// Ends the streams if this core's heartbeat lapsed.
    pub(super) fn end_lapsed(&self) {
        self.state.lock().end_lapsed(self.clock.as_ref());
    }

    /// Writes heartbeats and reads the others'; never ends.
    pub async fn run(&self) {
        if self.is_alone() {
            return std::future::pending().await;
        }
        let every = |period| {
            let mut every = interval(period);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            every
        };
        let (mut beats, mut checks) = (every(HEARTBEAT_INTERVAL), every(POLL_INTERVAL));
        let beating = async {
            loop {
                tokio::select! {
                    _ = beats.tick() => {}
                    () = self.beat_now.notified() => {}
                }
                let (beaten, read) = tokio::join!(self.send_heartbeat(), self.read_beats(std::iter::empty()));
                if let Err(error) = beaten.and(read) {
                    tracing::warn!(%error, "this core's beat did not arrive");
                    beats.reset_after(POLL_INTERVAL);
                }
            }
        };
        // Separate, since a heartbeat may take long to fail.
        let watching = async {
            loop {
                checks.tick().await;
                self.end_lapsed();
                self.publish_others(self.clock.now_ms(), false);
            }
        };
        tokio::join!(beating, watching);
    }

    /// Publishes that this core ends.
    pub async fn leave(&self) {
        self.state.lock().own.is_gone = true;
        if let Err(error) = self.send_heartbeat().await {
            tracing::debug!(%error, "the last heartbeat was not written; other cores will notice");
        }
    }
}
