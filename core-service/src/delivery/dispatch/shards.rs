//! The shards of webhooks: shared equally among the cores that have workers (`replicas/shard_cores.rs`). A core hands
//! out the attempts of its shards.
//!
//! A core has a shard from the write of a lease that names it until it gives the lease up, or until its heartbeats
//! lapse. So the leases of an idle core cost nothing but a read now and then, which finds a shard that another core
//! took by mistake. The epoch of a lease keeps a core that has lost it from overwriting its successor's rows
//! (`tables/deliveries.rs`).

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use super::ORPHAN_MS;
use crate::{
    replicas::members::Members,
    shared::Shared,
    store::StoreResult,
    tables::{
        leases::{self, LeaseWrite, ShardLease},
        queue::SHARDS,
    },
};

/// Interval between two checks of the members.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Number of checks from one read of the leases to the next, if nothing changes.
const CHECKS_PER_READ: u32 = 10;
/// Maximum number of tries to give up all shards while leases change.
const MAX_TRIES: usize = 5;
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

struct HeldShard {
    tenure: Tenure,
    /// The term of heartbeats in which it was taken. Another core may take it once this has ended.
    term: CancellationToken,
    /// True when the shard goes to another core as soon as none of its attempts is out.
    is_leaving: bool,
}

/// The leases as read: by shard, the version of the row, and the lease.
type Leases = HashMap<i64, (i64, ShardLease)>;

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
        let held = self.held.lock();
        held.get(&shard).filter(|held| self.members.holds(&held.term, now_ms)).map(|held| held.tenure)
    }

    /// True if this core may hand out a shard's attempts now.
    pub(super) fn serves(&self, shard: i64, now_ms: i64) -> bool {
        let serves = |held: &HeldShard| !held.is_leaving && self.members.holds(&held.term, now_ms);
        self.is_exclusive() || self.held.lock().get(&shard).is_some_and(serves)
    }

    /// The shards that this core holds, each with the time since which it holds it.
    pub(super) fn held(&self) -> HashMap<i64, i64> {
        if self.is_exclusive() {
            return (0..SHARDS).map(|shard| (shard, self.started_at)).collect();
        }
        self.held.lock().iter().map(|(shard, held)| (*shard, held.tenure.taken_at)).collect()
    }

    /// Takes this core's part of the shards, and gives up what is another core's part; never ends. `is_out` is true for
    /// a shard with attempts out.
    pub(super) async fn keep_leases(&self, is_out: impl Fn(i64) -> bool) {
        if self.is_exclusive() {
            return std::future::pending().await;
        }
        let mut every = tokio::time::interval(CHECK_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut checks, mut is_settled) = (0_u32, false);
        loop {
            tokio::select! {
                _ = every.tick() => checks += 1,
                () = self.changed.notified() => {}
            }
            self.drop_lapsed();
            let must_read = !is_settled || checks.is_multiple_of(CHECKS_PER_READ);
            is_settled = self.settle_shards(must_read, &is_out).await.unwrap_or_else(|error| {
                tracing::warn!(%error, "keeping the leases of webhook shards failed, trying again");
                false
            });
            self.drop_lapsed();
        }
    }

    fn drop_lapsed(&self) {
        let now_ms = self.shared.clock.now_ms();
        self.drop_shards(|_, held| !self.members.holds(&held.term, now_ms));
    }

    fn drop_shards(&self, is_lost: impl Fn(i64, &HeldShard) -> bool) {
        let lost: Vec<i64> =
            self.held.lock().extract_if(|shard, held| is_lost(*shard, held)).map(|(shard, _)| shard).collect();
        for shard in lost {
            self.shared.hints.set_served(shard, false);
            self.shared.hints.wake();
        }
    }

    /// Returns whether this core has its part, and no other core waits for it.
    async fn settle_shards(&self, must_read: bool, is_out: &impl Fn(i64) -> bool) -> StoreResult<bool> {
        let has_workers = self.has_workers.load(Ordering::Relaxed);
        // A write that timed out may still succeed and give this core a lease. So the core rereads the leases and gives
        // up those that it should not have.
        if !has_workers && !self.members.is_handing_out() && !must_read {
            return Ok(true);
        }
        if has_workers {
            self.members.set_handing_out(true);
        }
        let cores = self.members.shard_cores();
        let is_own = |core: &str| has_workers && core == self.members.replica();
        let part: HashSet<i64> =
            (0..SHARDS).zip(cores.iter()).filter(|(_, core)| is_own(core)).map(|(shard, _)| shard).collect();
        let ended = self.leave_all_but(&part, is_out);
        let keeps_some = !self.held.lock().is_empty();
        if !must_read && !ended && self.missing(&part).is_empty() && (has_workers || keeps_some) {
            return Ok(true);
        }
        // This comes before the read: if the heartbeats lapse from now on, another core may take what is read as free.
        let term = self.members.term();
        if !self.members.holds(&term, self.shared.clock.now_ms()) {
            return Ok(false);
        }
        let stored = leases::read_all(&self.shared.backend).await?;
        self.drop_shards(|shard, held| !self.is_lease_of(stored.get(&shard), held));
        let missing = self.missing(&part);
        let taken = self.free_leases(&missing, &stored).await?;
        let epochs: Vec<(i64, i64)> = taken.iter().map(|write| (write.shard, write.lease.epoch)).collect();
        let is_kept = |shard: i64| part.contains(&shard) || self.held.lock().contains_key(&shard);
        // A shard whose heartbeats lapsed may have attempts out.
        let now_ms = self.shared.clock.now_ms();
        let free_at = |shard| if is_out(shard) { now_ms + ORPHAN_MS } else { 0 };
        let writes = [taken, self.given_up(&stored, is_kept, free_at)].concat();
        if !writes.is_empty() && !leases::write(&self.shared.backend, writes).await? {
            return Ok(false);
        }
        let has_part = epochs.len() == missing.len();
        for (shard, epoch) in epochs {
            self.hold(shard, epoch, &term);
        }
        if !has_workers && self.held.lock().is_empty() {
            self.members.set_handing_out(false);
        }
        Ok(has_part)
    }

    /// Stops handing out the attempts of all other shards, and drops those of which no attempt is out. Returns whether
    /// it dropped one.
    fn leave_all_but(&self, part: &HashSet<i64>, is_out: impl Fn(i64) -> bool) -> bool {
        let mut leaving = Vec::new();
        for (shard, held) in self.held.lock().iter_mut().filter(|(shard, _)| !part.contains(*shard)) {
            held.is_leaving = true;
            leaving.push(*shard);
        }
        // The lock is free here: the dispatcher locks its attempts first and the shards then.
        leaving.retain(|shard| !is_out(*shard));
        self.drop_shards(|shard, _| leaving.contains(&shard));
        !leaving.is_empty()
    }

    /// The shards of a part that this core does not serve.
    fn missing(&self, part: &HashSet<i64>) -> Vec<i64> {
        let held = self.held.lock();
        part.iter().filter(|shard| held.get(*shard).is_none_or(|held| held.is_leaving)).copied().collect()
    }

    fn is_lease_of(&self, stored: Option<&(i64, ShardLease)>, held: &HeldShard) -> bool {
        let epoch = held.tenure.epoch;
        stored.is_some_and(|(_, lease)| {
            lease.owner == self.members.replica() && lease.epoch == epoch && lease.free_at.is_none()
        })
    }

    /// The leases by which this core takes shards, as far as these are free or its own.
    async fn free_leases(&self, shards: &[i64], stored: &Leases) -> StoreResult<Vec<LeaseWrite>> {
        let (own, now_ms) = (self.members.replica(), self.shared.clock.now_ms());
        let leases = shards.iter().filter_map(|shard| stored.get(shard));
        let others: BTreeSet<&String> = leases
            .filter(|(_, lease)| lease.owner != own && lease.free_at.is_none())
            .map(|(_, lease)| &lease.owner)
            .collect();
        let others: Vec<String> = others.into_iter().cloned().collect();
        let lapsed = if others.is_empty() { Vec::new() } else { self.members.lapsed(&others).await? };
        let take = |shard: &i64| {
            let last = stored.get(shard);
            let is_free =
                |lease: &ShardLease| lease.free_at.map_or_else(|| lapsed.contains(&lease.owner), |at| at <= now_ms);
            let epoch = match last {
                None => 1,
                Some((_, lease)) if lease.owner == own => lease.epoch,
                Some((_, lease)) if is_free(lease) => lease.epoch + 1,
                Some(_) => return None,
            };
            let lease = ShardLease { owner: own.to_owned(), epoch, free_at: None };
            Some(LeaseWrite { shard: *shard, before: last.map(|(version, _)| *version), lease })
        };
        Ok(shards.iter().filter_map(take).collect())
    }

    /// The leases by which this core gives up shards, each with the time from which the shard is free.
    fn given_up(
        &self,
        stored: &Leases,
        is_kept: impl Fn(i64) -> bool,
        free_at: impl Fn(i64) -> i64,
    ) -> Vec<LeaseWrite> {
        let own = self.members.replica();
        let left = stored
            .iter()
            .filter(|(shard, (_, lease))| lease.owner == own && lease.free_at.is_none() && !is_kept(**shard));
        let give_up = |(shard, (version, lease)): (&i64, &(i64, ShardLease))| LeaseWrite {
            shard: *shard,
            before: Some(*version),
            lease: ShardLease { free_at: Some(free_at(*shard)), ..lease.clone() },
        };
        left.map(give_up).collect()
    }

    /// Notes that the lease of a shard was written in a term of heartbeats.
    fn hold(&self, shard: i64, epoch: i64, term: &CancellationToken) {
        let mut all = self.held.lock();
        // The present time, since the write may take long. It is read under the lock: a hand-out that did not find the
        // shard read the clock before.
        let now_ms = self.shared.clock.now_ms();
        // A shard that was leaving is taken over again: attempts were held back in that time.
        let taken_at = all.get(&shard).map_or(now_ms, |held| now_ms.max(held.tenure.taken_at + 1));
        let tenure = Tenure { taken_at, epoch };
        all.insert(shard, HeldShard { tenure, term: term.clone(), is_leaving: false });
        drop(all);
        self.shared.hints.set_served(shard, true);
        self.shared.hints.wake();
    }

    /// Gives up all shards, since this core ends. The next core leaves attempts under way the time to be reported to
    /// it. Returns false if attempts are out and the leases may not say so.
    pub(super) async fn release_all(&self, now_ms: i64, is_out: impl Fn(i64) -> bool) -> bool {
        if self.is_exclusive() || !self.members.is_handing_out() {
            return true;
        }
        self.drop_shards(|_, _| true);
        let free_at = |shard| if is_out(shard) { now_ms + ORPHAN_MS } else { 0 };
        let are_given_up = self.give_up_all(free_at).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "giving up leases failed");
            false
        });
        are_given_up || !(0..SHARDS).any(is_out)
    }

    /// Returns whether no lease is this core's any more.
    async fn give_up_all(&self, free_at: impl Fn(i64) -> i64) -> StoreResult<bool> {
        for _ in 0..MAX_TRIES {
            let stored = leases::read_all(&self.shared.backend).await?;
            let writes = self.given_up(&stored, |_| false, &free_at);
            if writes.is_empty() || leases::write(&self.shared.backend, writes).await? {
                return Ok(true);
            }
            // A write of this core was still under way, or another core took a shard.
        }
        Ok(false)
    }
}
