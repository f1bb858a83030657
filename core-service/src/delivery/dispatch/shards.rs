//! The shards of webhooks: shared fairly among the cores that have workers. A core hands out the attempts of its
//! shards. Leases are renewed apart from that work, so that long work loses none. The epoch of a lease keeps a core
//! that has lost it from overwriting its successor's rows (`tables/deliveries.rs`).

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::MissedTickBehavior};

use super::ORPHAN_MS;
use crate::{
    replicas::members::{Members, first_of},
    shared::Shared,
    store::StoreResult,
    tables::{leases::lease, queue::SHARDS},
};

/// Duration of a shard's lease, in milliseconds.
pub(super) const LEASE_MS: i64 = 10_000;
/// A lease that lasts for less than this is renewed, in milliseconds.
const RENEW_MS: i64 = 7_000;
/// Interval between two checks of leases and members.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The epoch of a store that has one process.
const EXCLUSIVE_EPOCH: i64 = 1;

/// The time in which a core holds a shard without a break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tenure {
    /// Its start, in unix milliseconds.
    pub(super) taken_at: i64,
    /// The epoch of the lease.
    pub(super) epoch: i64,
}

#[derive(Clone, Copy)]
struct HeldShard {
    until: i64,
    tenure: Tenure,
    /// True when the shard goes to another core as soon as none of its attempts is out.
    is_leaving: bool,
}

pub(super) struct Shards {
    shared: Arc<Shared>,
    members: Arc<Members>,
    started_at: i64,
    has_workers: AtomicBool,
    changed: Notify,
    held: Mutex<HashMap<i64, HeldShard>>,
}

impl Shards {
    pub(super) fn new(shared: Arc<Shared>, members: Arc<Members>) -> Self {
        let started_at = shared.clock.now_ms();
        Self {
            shared,
            members,
            started_at,
            has_workers: AtomicBool::new(false),
            changed: Notify::new(),
            held: Mutex::default(),
        }
    }

    fn is_exclusive(&self) -> bool {
        self.shared.backend.is_exclusive()
    }

    pub(super) fn set_has_workers(&self, has_workers: bool) {
        if self.has_workers.swap(has_workers, Ordering::Relaxed) != has_workers {
            self.changed.notify_one();
        }
    }

    /// The time since which this core holds a shard without a break, in unix milliseconds; none if it does not hold it.
    pub(super) fn taken_at(&self, shard: i64) -> Option<i64> {
        if self.is_exclusive() {
            return Some(self.started_at);
        }
        self.held.lock().get(&shard).map(|held| held.tenure.taken_at)
    }

    /// The tenure in which this core owns a shard's attempts now; none without a lease that lasts.
    pub(super) fn tenure(&self, shard: i64, now_ms: i64) -> Option<Tenure> {
        if self.is_exclusive() {
            return Some(Tenure { taken_at: self.started_at, epoch: EXCLUSIVE_EPOCH });
        }
        self.held.lock().get(&shard).filter(|held| held.until > now_ms).map(|held| held.tenure)
    }

    /// True if this core may hand out a shard's attempts now.
    pub(super) fn serves(&self, shard: i64, now_ms: i64) -> bool {
        self.is_exclusive() || self.held.lock().get(&shard).is_some_and(|held| held.until > now_ms && !held.is_leaving)
    }

    /// The shards that this core holds, each with the time since which it holds it.
    pub(super) fn held(&self) -> HashMap<i64, i64> {
        if self.is_exclusive() {
            return (0..SHARDS).map(|shard| (shard, self.started_at)).collect();
        }
        self.held.lock().iter().map(|(shard, held)| (*shard, held.tenure.taken_at)).collect()
    }

    /// Takes this core's part of the shards and renews the leases; never ends. `is_out` is true for a shard with
    /// attempts out.
    pub(super) async fn keep_leases(&self, is_out: impl Fn(i64) -> bool) {
        if self.is_exclusive() {
            return std::future::pending().await;
        }
        let mut every = tokio::time::interval(CHECK_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = every.tick() => {}
                () = self.changed.notified() => {}
            }
            let now_ms = self.shared.clock.now_ms();
            if let Err(error) = self.settle_shards(now_ms, &is_out).await {
                tracing::warn!(%error, "keeping the leases of webhook shards failed, trying again");
            }
            let now_ms = self.shared.clock.now_ms();
            let lost: Vec<i64> =
                self.held.lock().extract_if(|_, held| held.until <= now_ms).map(|(shard, _)| shard).collect();
            for shard in lost {
                self.shared.hints.set_served(shard, false);
                self.shared.hints.wake();
            }
        }
    }

    async fn settle_shards(&self, now_ms: i64, is_out: &impl Fn(i64) -> bool) -> StoreResult<()> {
        if !self.has_workers.load(Ordering::Relaxed) {
            if self.members.is_handing_out() {
                self.leave(now_ms, is_out).await;
            }
            return Ok(());
        }
        self.members.set_handing_out(true);
        let members = self.members.handing_out();
        let steps = (0..SHARDS).map(|shard| self.settle_shard(shard, &members, now_ms, is_out));
        futures::future::try_join_all(steps).await.map(drop)
    }

    async fn settle_shard(
        &self,
        shard: i64,
        members: &[String],
        now_ms: i64,
        is_out: &impl Fn(i64) -> bool,
    ) -> StoreResult<()> {
        let first = first_of(members.iter().map(String::as_str), &shard.to_string());
        let is_mine = first.is_none_or(|first| first == self.members.replica());
        let held = self.held.lock().get(&shard).copied();
        match held {
            Some(_) if !is_mine => {
                if let Some(held) = self.held.lock().get_mut(&shard) {
                    held.is_leaving = true;
                }
                if !is_out(shard) {
                    self.held.lock().remove(&shard);
                    self.give_up(shard, now_ms, 0).await;
                }
            }
            Some(held) if held.until - now_ms > RENEW_MS && !held.is_leaving => {}
            None if !is_mine => {}
            held => {
                let until = now_ms + LEASE_MS;
                if let Some(epoch) = self.lease(shard, now_ms, until).await? {
                    self.hold(shard, held, epoch, until);
                } else {
                    self.held.lock().remove(&shard);
                    self.shared.hints.set_served(shard, false);
                }
            }
        }
        Ok(())
    }

    /// Notes a lease that was written while the shard was held like this, or not at all.
    fn hold(&self, shard: i64, held: Option<HeldShard>, epoch: i64, until: i64) {
        let mut all = self.held.lock();
        // The present time, since the write may take long. It is read under the lock: a hand-out that found the lease
        // ended read the clock before.
        let now_ms = self.shared.clock.now_ms();
        let taken_at = match held {
            Some(held) if held.until > now_ms && !held.is_leaving && held.tenure.epoch == epoch => held.tenure.taken_at,
            // The shard is taken over again: attempts were held back in that time, and another core may have had the
            // lease.
            Some(held) => now_ms.max(held.tenure.taken_at + 1),
            None => now_ms,
        };
        all.insert(shard, HeldShard { until, tenure: Tenure { taken_at, epoch }, is_leaving: false });
        drop(all);
        self.shared.hints.set_served(shard, true);
        self.shared.hints.wake();
    }

    /// Writes a lease of this core if the shard is free or its own. Returns its epoch if it was written.
    pub(super) async fn lease(&self, shard: i64, now_ms: i64, until: i64) -> StoreResult<Option<i64>> {
        lease(&self.shared.backend, shard, self.members.replica(), now_ms, until).await
    }

    /// Gives up the shards without attempts out. It stops handing out the others, whose reports still arrive.
    async fn leave(&self, now_ms: i64, is_out: impl Fn(i64) -> bool) {
        let free: Vec<i64> = {
            let mut held = self.held.lock();
            held.values_mut().for_each(|held| held.is_leaving = true);
            held.extract_if(|shard, _| !is_out(*shard)).map(|(shard, _)| shard).collect()
        };
        for shard in free {
            self.give_up(shard, now_ms, 0).await;
        }
        if self.held.lock().is_empty() {
            self.members.set_handing_out(false);
        }
    }

    /// Gives up all shards, since this core ends. The next core leaves attempts under way the time to be reported to
    /// it.
    pub(super) async fn release_all(&self, now_ms: i64, is_out: impl Fn(i64) -> bool) {
        if self.is_exclusive() {
            return;
        }
        let held: Vec<i64> = self.held.lock().drain().map(|(shard, _)| shard).collect();
        for shard in held {
            self.give_up(shard, now_ms, if is_out(shard) { now_ms + ORPHAN_MS } else { 0 }).await;
        }
    }

    async fn give_up(&self, shard: i64, now_ms: i64, until: i64) {
        self.shared.hints.set_served(shard, false);
        if let Err(error) = self.lease(shard, now_ms, until).await {
            tracing::debug!(%error, shard, "giving up a lease failed; it ends by itself");
        }
    }
}
