//! The cores that live. Each shows by a beat that it does, and what others need to know of it.
//!
//! Watchers judge by how long they see the same beat, on their own clock, so clocks need not agree. There are two
//! patiences. After [`OWNER_MS`] without a beat a core owns nothing. Its streams' places count for longer: a core that
//! could not beat for [`LEASE_MS`] ends its streams, and after [`GONE_MS`] others no longer count them.
//!
//! On the embedded store there is one core, and no beats.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use thesis_net::clock::SharedClock;
use tokio::{
    sync::{Notify, watch},
    time::{MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use crate::{
    domain::id,
    store::{SharedBackend, StoreResult},
    tables::members::{self, HEARTBEAT_RETENTION_SECONDS, Heartbeat, Member},
};

/// How often a core beats, and looks at the others' beats.
const BEAT_EVERY: Duration = Duration::from_secs(1);
/// How often a core looks whether it could beat.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Longest time that a beat stands still; then its core owns nothing.
pub const OWNER_MS: i64 = 3_000;
/// Longest age of a beat for a new stream: later it might have to end at once.
const LATE_MS: i64 = 4_000;
/// Longest time without a beat; then a core ends its streams.
pub(super) const LEASE_MS: i64 = 9_000;
/// Longest time that a beat stands still; then its core has no streams and no attempts out.
pub const GONE_MS: i64 = 11_000;

/// Another core's last beat.
#[derive(Clone, Debug)]
struct Seen {
    beat: i64,
    /// Since when this beat is seen.
    since: i64,
    /// Whether it was seen to move: the age of the first beat is not known.
    has_moved: bool,
    member: Member,
}

impl Seen {
    /// Whether it was seen to beat lately.
    fn lives(&self, now_ms: i64, patience_ms: i64) -> bool {
        self.has_moved && !self.member.is_gone && now_ms - self.since < patience_ms
    }

    /// The same, as far as is known: a first beat may be new.
    fn may_live(&self, now_ms: i64) -> bool {
        !self.member.is_gone && now_ms - self.since < GONE_MS
    }
}

#[derive(Debug, Default)]
struct State {
    own: Member,
    number: i64,
    /// When the last beat that surely arrived was sent.
    beat_at: Option<i64>,
    /// Cancelled when streams must end because this core could not beat.
    term: CancellationToken,
    others: HashMap<String, Seen>,
}

/// The cores, as this one sees them.
pub struct Members {
    backend: SharedBackend,
    clock: SharedClock,
    replica: String,
    state: Mutex<State>,
    /// Has this core beat at once.
    hurry: Notify,
    /// The other cores that may live.
    others: watch::Sender<Vec<Other>>,
    /// Whether the others were looked at.
    has_looked: AtomicBool,
}

/// Another core that may live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Its name.
    pub replica: String,
    /// The gRPC URL at which it is reached.
    pub address: String,
    /// Whether it may own logs: it was seen to beat lately.
    pub owns: bool,
}

/// The first of some cores for a thing, by rendezvous hashing: the same for everybody who knows the same cores.
pub fn first_of<'a>(cores: impl IntoIterator<Item = &'a str>, thing: &str) -> Option<&'a str> {
    cores.into_iter().max_by_key(|core| id::derive("", &[core, thing]))
}

impl Members {
    /// The cores as seen by this one, which others reach at `address`, a gRPC URL.
    #[must_use]
    pub fn new(backend: SharedBackend, clock: SharedClock, replica: String, address: String) -> Arc<Self> {
        let state = State { own: Member { address, ..Member::default() }, ..State::default() };
        let (others, has_looked) = (watch::Sender::new(Vec::new()), AtomicBool::new(false));
        Arc::new(Self { backend, clock, replica, state: Mutex::new(state), hurry: Notify::new(), others, has_looked })
    }

    /// This core's name.
    #[must_use]
    pub fn replica(&self) -> &str {
        &self.replica
    }

    /// The gRPC URL at which other cores reach this one; empty when they cannot.
    #[must_use]
    pub fn address(&self) -> String {
        self.state.lock().own.address.clone()
    }

    /// Whether there can be no other core.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.backend.is_exclusive()
    }

    /// Cancelled when this core has not beaten for too long: what others no longer count must end.
    pub fn term(&self) -> CancellationToken {
        self.state.lock().term.clone()
    }

    /// Whether this core's last beat is too old for something new that others must count.
    pub fn is_late(&self) -> bool {
        let now_ms = self.clock.now_ms();
        !self.is_alone() && self.state.lock().beat_at.is_none_or(|at| now_ms - at >= LATE_MS)
    }

    /// Whether this core told the others that it hands out attempts.
    #[must_use]
    pub fn is_handing_out(&self) -> bool {
        self.state.lock().own.hands_out
    }

    /// Tells the others whether this core hands out attempts.
    pub fn hands_out(&self, does: bool) {
        let was = std::mem::replace(&mut self.state.lock().own.hands_out, does);
        if was != does {
            self.hurry.notify_one();
        }
    }

    /// The cores that live and hand out attempts, this one included if it does.
    #[must_use]
    pub fn handing_out(&self) -> Vec<String> {
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        let others = state.others.iter().filter(|(_, seen)| seen.member.hands_out && seen.lives(now_ms, GONE_MS));
        let own = state.own.hands_out.then(|| self.replica.clone());
        others.map(|(replica, _)| replica.clone()).chain(own).collect()
    }

    /// The other cores that may live.
    #[must_use]
    pub fn others(&self) -> watch::Receiver<Vec<Other>> {
        self.others.subscribe()
    }

    /// Whether the others are known at all.
    #[must_use]
    pub fn has_looked(&self) -> bool {
        self.has_looked.load(Ordering::Relaxed)
    }

    /// Whether this core may own logs: it has shown lately that it lives.
    #[must_use]
    pub fn owns(&self) -> bool {
        let now_ms = self.clock.now_ms();
        self.is_alone() || self.state.lock().beat_at.is_some_and(|at| now_ms - at < OWNER_MS)
    }

    /// Whether another core lives, as far as is known: one whose beat was never seen to move may.
    #[must_use]
    pub fn may_live(&self, replica: &str) -> bool {
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        replica == self.replica || state.others.get(replica).is_some_and(|seen| seen.may_live(now_ms))
    }

    /// Whether a core certainly owns nothing any more.
    #[must_use]
    pub fn is_dead(&self, replica: &str) -> bool {
        let now_ms = self.clock.now_ms();
        let state = self.state.lock();
        let is_over = |seen: &Seen| !seen.may_live(now_ms) || seen.has_moved && !seen.lives(now_ms, OWNER_MS);
        replica != self.replica && self.has_looked() && state.others.get(replica).is_none_or(is_over)
    }

    /// Looks at the others' beats. A beat that is missing stands still.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn look<'a>(&self, named: impl IntoIterator<Item = &'a String>) -> StoreResult<()> {
        if self.is_alone() {
            return Ok(());
        }
        let beats = members::read_heartbeats(&self.backend).await?;
        let now_ms = self.clock.now_ms();
        let mut state = self.state.lock();
        state.others.retain(|_, seen| now_ms - seen.since < i64::from(HEARTBEAT_RETENTION_SECONDS) * 1_000);
        for Heartbeat { replica, number, member } in beats.into_iter().filter(|beat| beat.replica != self.replica) {
            let new = || Seen { beat: number, since: now_ms, has_moved: false, member: member.clone() };
            let seen = state.others.entry(replica).or_insert_with(new);
            // An answer may come after a later one.
            if number > seen.beat {
                *seen = Seen { has_moved: true, ..new() };
            }
        }
        for replica in named {
            let missing = || Seen { beat: 0, since: now_ms, has_moved: false, member: Member::default() };
            state.others.entry(replica.clone()).or_insert_with(missing);
        }
        drop(state);
        // That there is nobody else is news too.
        let is_first = !self.has_looked.swap(true, Ordering::Relaxed);
        self.settle_others(now_ms, is_first);
        Ok(())
    }

    fn settle_others(&self, now_ms: i64, tells: bool) {
        let mut others: Vec<Other> = {
            let state = self.state.lock();
            let live = state.others.iter().filter(|(_, seen)| seen.may_live(now_ms));
            let other = |(replica, seen): (&String, &Seen)| Other {
                replica: replica.clone(),
                address: seen.member.address.clone(),
                owns: seen.lives(now_ms, OWNER_MS),
            };
            live.map(other).collect()
        };
        others.sort_unstable_by(|one, other| one.replica.cmp(&other.replica));
        self.others.send_if_modified(|known| {
            let changes = *known != others;
            *known = others;
            changes || tells
        });
    }

    /// Shows that this core lives.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn beat(&self) -> StoreResult<()> {
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
        // Streams from before a lapse end, however late it is noticed.
        self.end_lapsed();
        let mut state = self.state.lock();
        state.beat_at = state.beat_at.max(Some(sent_at));
        Ok(())
    }

    /// Ends the streams if this core could not beat in time.
    pub(super) fn end_lapsed(&self) {
        let now_ms = self.clock.now_ms();
        let mut state = self.state.lock();
        if state.beat_at.is_some_and(|at| now_ms - at >= LEASE_MS) {
            tracing::warn!("this core's beat did not arrive for too long: its streams end");
            state.beat_at = None;
            std::mem::take(&mut state.term).cancel();
        }
    }

    /// Beats and looks at the others' beats; never ends.
    pub async fn run(&self) {
        if self.is_alone() {
            return std::future::pending().await;
        }
        let every = |period| {
            let mut every = interval(period);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            every
        };
        let (mut beats, mut looks) = (every(BEAT_EVERY), every(POLL_INTERVAL));
        let beating = async {
            loop {
                tokio::select! {
                    _ = beats.tick() => {}
                    () = self.hurry.notified() => {}
                }
                let (beaten, looked) = tokio::join!(self.beat(), self.look(std::iter::empty()));
                if let Err(error) = beaten.and(looked) {
                    tracing::warn!(%error, "this core's beat did not arrive");
                    beats.reset_after(POLL_INTERVAL);
                }
            }
        };
        // Separate, since a beat may take long to fail.
        let watching = async {
            loop {
                looks.tick().await;
                self.end_lapsed();
                self.settle_others(self.clock.now_ms(), false);
            }
        };
        tokio::join!(beating, watching);
    }

    /// Tells the others that this core ends.
    pub async fn leave(&self) {
        self.state.lock().own.is_gone = true;
        if let Err(error) = self.beat().await {
            tracing::debug!(%error, "leaving was not told; others will notice");
        }
    }
}
