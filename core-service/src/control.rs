//! Organizations, projects, keys, webhooks, alerts: one log of changes, and its state in the memory of every replica.
//!
//! A change is decided on the state at the log's head, and appended only if the head is still the same. So limits and
//! uniqueness are exact without locks. Every replica follows the log, so that a change acts everywhere.

mod alerts;
mod matching;
mod people;
mod state;
#[cfg(test)]
mod tests;

pub use self::{people::People, state::ControlState};

use std::{
    slice,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{RwLock, RwLockReadGuard};
use thesis_net::clock::{SharedClock, SharedIdSource};
use tokio::{
    sync::{self, Mutex, Notify, watch},
    time::MissedTickBehavior,
};

use crate::{
    domain::{account::Act, control::ControlChange},
    error::{Error, Result},
    notifications::Notifications,
    store::{Consistency, SharedBackend, StoreResult},
    tables::{
        audit_chain::AuditChains,
        control::{self as control_rows, decode, entry_changes},
        log::{AppendOutcome, LogStore, checkpoint_change},
    },
};

pub const CONTROL_LOG: &str = "control";

/// Name of the projection into rows, from which a start loads.
const ROWS_PROJECTION: &str = "rows";

/// Maximum number of rows or entries that one read returns.
const PAGE: usize = 1_000;

/// Interval between two reads of the log while another core is not connected, and between two checks whether the state
/// is current.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Interval between two reads of the log while every other core is connected, in milliseconds.
const FALLBACK_READ_MS: i64 = 700;

/// Age from which the state is not used without a check of the log, in milliseconds.
const CURRENT_MS: i64 = 5_000;

pub struct Control {
    backend: SharedBackend,
    log: LogStore,
    clock: SharedClock,
    ids: SharedIdSource,
    state: RwLock<ControlState>,
    changing: Arc<Mutex<()>>,
    /// Held for writing while an entry that changes which events webhooks get is appended and applied, where only this
    /// process writes.
    settings: sync::RwLock<()>,
    changed: watch::Sender<u64>,
    synced_at: AtomicI64,
    /// Number of reads by [`Control::try_refresh`] that have begun, and the lock that a read holds.
    refreshes: AtomicU64,
    refreshing: Mutex<()>,
    current: watch::Sender<bool>,
    /// Notifications to the other cores.
    pub notifications: Arc<Notifications>,
    /// Wakes the follower when another core notifies of a new entry.
    entry_notified: Notify,
    /// True while the notifications of every other core arrive.
    all_connected: AtomicBool,
}

impl Control {
    /// Loads the state: the rows, then the log's entries beyond them.
    pub async fn load(backend: SharedBackend, clock: SharedClock, ids: SharedIdSource) -> Result<Self> {
        let log = LogStore::new(Arc::clone(&backend));
        // The checkpoint is read before the rows: entries projected in between are read twice, never missed.
        let mut state = ControlState::default();
        state.head = log.checkpoint(CONTROL_LOG, ROWS_PROJECTION).await?;
        control_rows::load(&backend, |change| state.apply_change(change)).await?;
        let control = Self {
            backend,
            log,
            synced_at: AtomicI64::new(clock.now_ms()),
            refreshes: AtomicU64::new(0),
            refreshing: Mutex::default(),
            clock,
            ids,
            changed: watch::Sender::new(state.head),
            state: RwLock::new(state),
            changing: Arc::default(),
            settings: sync::RwLock::default(),
            current: watch::Sender::new(true),
            notifications: Arc::default(),
            entry_notified: Notify::new(),
            all_connected: AtomicBool::new(false),
        };
        control.catch_up().await?;
        Ok(control)
    }

    /// The state as far as this replica knows it.
    pub fn state(&self) -> RwLockReadGuard<'_, ControlState> {
        self.state.read()
    }

    /// Signals every change that this replica learns of.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// True if the log was checked lately. Otherwise a key may be revoked without this replica knowing.
    pub fn is_current(&self) -> bool {
        self.backend.is_exclusive() || self.clock.now_ms() - self.synced_at.load(Ordering::Relaxed) <= CURRENT_MS
    }

    /// The last entry of the log that this replica knows.
    pub fn head(&self) -> u64 {
        self.state.read().head
    }

    /// Milliseconds since the state was last known to be whole; 0 where no other core can change it.
    pub fn age_ms(&self) -> i64 {
        let age = self.clock.now_ms() - self.synced_at.load(Ordering::Relaxed);
        if self.backend.is_exclusive() { 0 } else { age }
    }

    pub fn current(&self) -> watch::Receiver<bool> {
        self.current.subscribe()
    }

    /// Follows the log, where others may append to it; never ends.
    pub async fn follow(&self) {
        if self.backend.is_exclusive() {
            return std::future::pending().await;
        }
        let every = || {
            let mut every = tokio::time::interval(POLL_INTERVAL);
            every.set_missed_tick_behavior(MissedTickBehavior::Delay);
            every
        };
        let (mut read, mut judge) = (every(), every());
        let reading = async {
            loop {
                tokio::select! {
                    _ = read.tick() => {
                        let since = self.clock.now_ms() - self.synced_at.load(Ordering::Relaxed);
                        if self.all_connected.load(Ordering::Relaxed) && since < FALLBACK_READ_MS {
                            continue;
                        }
                    }
                    () = self.entry_notified.notified() => {}
                }
                if let Err(error) = self.catch_up().await {
                    tracing::warn!(%error, "following the control log failed");
                }
            }
        };
        // Separate, since a read may take long to fail.
        let judging = async {
            loop {
                judge.tick().await;
                self.judge();
            }
        };
        tokio::join!(reading, judging);
    }

    /// Reads the log now, since another core notified of a new entry.
    pub fn wake(&self) {
        self.entry_notified.notify_one();
    }

    pub fn set_all_connected(&self, all_connected: bool) {
        self.all_connected.store(all_connected, Ordering::Relaxed);
    }

    /// Notifies the watchers when the state becomes too old, or current again.
    pub(super) fn judge(&self) {
        let is = self.is_current();
        if self.current.send_if_modified(|current| std::mem::replace(current, is) != is) {
            if is {
                tracing::info!("the control log is followed again");
            } else {
                tracing::error!("the control log cannot be followed: serving nothing until it can");
            }
        }
    }

    /// True if other replicas can change the log.
    pub fn is_shared(&self) -> bool {
        !self.backend.is_exclusive()
    }

    /// Applies all changes that any replica has acknowledged.
    pub async fn refresh(&self) -> Result<()> {
        if self.is_shared() { self.catch_up().await } else { Ok(()) }
    }

    /// Like [`Self::refresh`], but ignores a failure. One read serves all callers that came before it began.
    pub async fn try_refresh(&self) {
        let came = self.refreshes.load(Ordering::Relaxed);
        let _refreshing = self.refreshing.lock().await;
        if self.refreshes.load(Ordering::Relaxed) == came {
            self.refreshes.fetch_add(1, Ordering::Relaxed);
            if let Err(error) = self.catch_up().await {
                tracing::debug!(%error, "reading the control log failed");
            }
        }
    }

    /// Reads and applies the entries that other replicas appended.
    pub async fn catch_up(&self) -> Result<()> {
        let read_at = self.clock.now_ms();
        loop {
            let known = self.state.read().head;
            let head = self.log.head(CONTROL_LOG, known, Consistency::Quorum).await?;
            if head <= known {
                break;
            }
            let entries = self.log.read(CONTROL_LOG, known, head, PAGE).await?;
            if entries.is_empty() {
                break;
            }
            self.apply_entries(entries)?;
        }
        self.synced_at.fetch_max(read_at, Ordering::Relaxed);
        Ok(())
    }

    /// Keeps the settings as they are, until the result is dropped. A caller that matches events with them and writes
    /// the deliveries meanwhile loses none of these: the next change of settings makes them durable before itself.
    /// Where other processes write too, every write is durable, and nothing is held.
    pub async fn hold_settings(&self) -> Option<sync::RwLockReadGuard<'_, ()>> {
        if self.is_shared() { None } else { Some(self.settings.read().await) }
    }

    fn apply_entries(&self, entries: Vec<(u64, Bytes)>) -> StoreResult<()> {
        let mut state = self.state.write();
        for (seq, body) in entries {
            if seq == state.head + 1 {
                decode(body)?.into_iter().for_each(|change| state.apply_change(change));
                state.head = seq;
            }
        }
        self.changed.send_replace(state.head);
        Ok(())
    }

    /// Decides changes on the newest state and appends them, all or none, as the act of an actor. `decide` is called
    /// again when another replica was faster. It may decide for no change.
    pub async fn change<T>(
        self: &Arc<Self>,
        act: Act,
        decide: impl Fn(&ControlState) -> Result<(Vec<ControlChange>, T)>,
    ) -> Result<T> {
        let mut one_at_a_time = Arc::clone(&self.changing).lock_owned().await;
        loop {
            self.catch_up().await?;
            let (head, (changes, answer), organization_id) = {
                let state = self.state.read();
                let decided = decide(&state)?;
                let organization_id = decided.0.first().and_then(|change| state.organization_of(change));
                (state.head, decided, organization_id)
            };
            let Some(first) = changes.first() else { return Ok(answer) };
            let subject = control_rows::subject_of(first);
            let act = Act { organization_id, subject, ..act.clone() };
            let is_judgement = changes.iter().any(ControlState::is_judgement);
            let entry = control_rows::encode(self.clock.now_ms(), changes, act);
            // The caller may give up, but this replica must apply every entry that is in the log.
            let control = Arc::clone(self);
            let putting = tokio::spawn(async move {
                let appended = control.append_entry(head, entry, is_judgement).await;
                (appended, one_at_a_time)
            });
            let (appended, turn) = putting.await.map_err(Error::internal)?;
            if appended? {
                return Ok(answer);
            }
            one_at_a_time = turn;
        }
    }

    /// Appends an entry after this head and applies it. Returns false if another replica was faster. `is_judgement` is
    /// true if the entry may change which events a webhook gets.
    async fn append_entry(&self, head: u64, entry: Bytes, is_judgement: bool) -> Result<bool> {
        let mut batch = [0; 16];
        self.ids.fill(&mut batch);
        let mut held = None;
        if is_judgement {
            held = Some(self.settings.write().await);
            // A crash must not undo what followed from the settings before this entry: with the new ones it may not
            // follow again.
            self.backend.sync().await?;
        }
        match self.log.append(CONTROL_LOG, head, batch, slice::from_ref(&entry)).await {
            Ok(AppendOutcome::Done) => {}
            Ok(AppendOutcome::Lost) => return Ok(false),
            Err(error) => {
                // The entry may be in the log anyway. A caller that reads before it tries again must see it then.
                drop(self.catch_up().await);
                return Err(error.into());
            }
        }
        self.notifications.control_changed();
        self.apply_entries(vec![(head + 1, entry)])?;
        drop(held);
        // The change is done. Rows only make a start faster; the next change writes these rows too.
        if let Err(error) = self.project().await {
            tracing::warn!(%error, "storing the rows of the control log failed");
        }
        Ok(true)
    }

    /// Writes the rows of all entries that are not projected yet, then the checkpoint.
    pub async fn project(&self) -> Result<()> {
        let head = self.state.read().head;
        loop {
            let done = self.log.checkpoint(CONTROL_LOG, ROWS_PROJECTION).await?;
            let entries = self.log.read(CONTROL_LOG, done, head, PAGE).await?;
            let Some((last, _)) = entries.last() else { return Ok(()) };
            let last = *last;
            let (mut changes, mut chains) = (Vec::new(), AuditChains::default());
            for (seq, body) in entries {
                let (rows, audit_rows) = entry_changes(seq, body)?;
                changes.extend(rows);
                let version = i64::try_from(seq).unwrap_or(i64::MAX);
                for row in audit_rows {
                    changes.extend(chains.add(&self.backend, version, row).await?);
                }
            }
            self.backend.apply(changes).await?;
            // A write to several partitions may be applied in part, and a checkpoint without the chains' ends would
            // leave chains behind.
            let ends: Vec<_> = chains.ends().collect();
            if !ends.is_empty() {
                self.backend.apply(ends).await?;
            }
            self.backend.apply(vec![checkpoint_change(CONTROL_LOG, ROWS_PROJECTION, last)]).await?;
        }
    }
}
