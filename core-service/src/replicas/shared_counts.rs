//! Counts that replicas keep together: each replica stores its own count, and the sum decides.
//!
//! A replica decides by its own count and the others' counts as last read. An exchange stores its own count and then
//! reads the others'. The first exchange is at once. Later ones, while the count is in use, come every [`NEAR_MS`] near
//! its limit and every [`FAR_MS`] far from it, where a request costs almost nothing. A store that does not answer
//! neither stops nor delays decisions; the exchange follows when it answers again.

use std::{
    cmp::Reverse,
    collections::HashMap,
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::{StreamExt as _, stream};
use parking_lot::Mutex;
use thesis_net::clock::Clock;
use tokio::{
    sync::Notify,
    time::{MissedTickBehavior, timeout},
};
use tokio_util::sync::CancellationToken;

use crate::{
    store::{SharedBackend, StoreError, StoreResult},
    tables::counts::{CountKey, CountRow, CountTable},
};

/// Interval between exchanges of a count in use near its limit, in milliseconds. The others' counts are known after
/// twice this and the store's time.
const NEAR_MS: i64 = 100;
/// Interval between exchanges of a count in use while more than half of its limit is left and little of the count is
/// not stored, in milliseconds.
const FAR_MS: i64 = 2_000;
/// Part of the remaining limit that a replica may count before it stores its count: a sixteenth. When one replica uses
/// up a limit within [`FAR_MS`], every other one may allow that much beyond the limit.
const UNSHARED_PART: u64 = 16;
/// Part of a strict limit that a replica may count without the others' recent counts: one in 16,000.
const UNKNOWN_PART: u64 = 16_000;
/// Interval between two searches for counts whose exchange is due.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Time for which the others' counts are fresh after a read, in milliseconds.
const FRESH_MS: i64 = 300;
/// Time for which a request waits for an exchange.
const EXCHANGE_TIMEOUT: Duration = Duration::from_millis(250);
/// Maximum number of exchanges at the same time.
const MAX_PARALLEL: usize = 32;

pub trait SharedCountKey: Clone + Eq + Hash + Send + Sync + 'static {
    /// The partition with one row of each replica.
    fn partition(&self) -> CountKey;

    fn has_ended(&self, now_ms: i64) -> bool;
}

#[derive(Debug, Default)]
struct Count {
    own: u64,
    others: u64,
    /// The own count as others can read it, and its row's version.
    stored: u64,
    version: i64,
    /// Number of uses of the count, and how many of them the last exchange covers.
    uses: u64,
    covered: u64,
    /// The time at which the last exchange began, if there was one.
    exchanged_at: Option<i64>,
    /// The limit at the last use; 0 if none is known.
    limit: u64,
    /// Maximum part of the own count that may stay unstored.
    max_unshared: u64,
    /// One exchange at a time.
    turn: Arc<tokio::sync::Mutex<()>>,
}

impl Count {
    const fn total(&self) -> u64 {
        self.own.saturating_add(self.others)
    }

    fn is_younger(&self, age_ms: i64, now_ms: i64) -> bool {
        self.exchanged_at.is_some_and(|at| now_ms - at < age_ms)
    }

    /// Notes the limit, and the part that may be counted before the count is stored.
    const fn hold_to(&mut self, limit: u64, max_unshared: u64) {
        (self.limit, self.max_unshared) = (limit, max_unshared);
    }

    fn is_due(&self, now_ms: i64) -> bool {
        let far = self.total() < self.limit / 2 && self.own.saturating_sub(self.stored) <= self.max_unshared;
        !self.is_younger(if far { FAR_MS } else { NEAR_MS }, now_ms)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct CountStorage {
    pub table: CountTable,
    /// Minimum own count that is worth storing.
    pub from: u64,
}

struct Counts<K> {
    by_key: HashMap<K, Count>,
    /// Keys that were in use since their last exchange.
    pending: Vec<K>,
}

pub struct SharedCounts<K> {
    backend: SharedBackend,
    replica: String,
    stored: CountStorage,
    counts: Mutex<Counts<K>>,
    due: Notify,
    failing: AtomicBool,
}

impl<K: SharedCountKey> SharedCounts<K> {
    pub fn new(backend: SharedBackend, replica: String, stored: CountStorage) -> Self {
        let counts = Mutex::new(Counts { by_key: HashMap::new(), pending: Vec::new() });
        Self { backend, replica, stored, counts, due: Notify::new(), failing: AtomicBool::new(false) }
    }

    /// True if the counts are in this process's memory only.
    fn is_local(&self) -> bool {
        self.backend.is_exclusive() && !self.stored.table.is_permanent()
    }

    /// Updates a count and notes that it is in use.
    fn update_count<T>(&self, key: &K, now_ms: i64, update: impl FnOnce(&mut Count) -> T) -> T {
        let mut counts = self.counts.lock();
        if !counts.by_key.contains_key(key) {
            counts.by_key.insert(key.clone(), Count::default());
        }
        let Counts { by_key, pending } = &mut *counts;
        let Some(count) = by_key.get_mut(key) else { return update(&mut Count::default()) };
        let answer = update(count);
        if !self.is_local() && (count.own >= self.stored.from || count.stored > 0) {
            if count.uses == count.covered {
                pending.push(key.clone());
            }
            count.uses += 1;
            if count.is_due(now_ms) {
                self.due.notify_one();
            }
        }
        answer
    }

    /// Counts one more, even over `limit`. Returns the sum.
    pub fn add(&self, key: &K, limit: u64, now_ms: i64) -> u64 {
        self.update_count(key, now_ms, |count| {
            count.own += 1;
            count.hold_to(limit, limit.saturating_sub(count.total()) / UNSHARED_PART);
            count.total()
        })
    }

    /// Counts one more if the sum as known here stays within `limit`. Returns whether it did, and the sum.
    pub fn take(&self, key: &K, limit: u64, now_ms: i64) -> (bool, u64) {
        self.update_count(key, now_ms, |count| {
            let allowed = count.total() < limit;
            count.own += u64::from(allowed);
            count.hold_to(limit, limit.saturating_sub(count.total()) / UNSHARED_PART);
            (allowed, count.total())
        })
    }

    /// The sum as it is known here.
    pub fn known(&self, key: &K, now_ms: i64) -> u64 {
        self.update_count(key, now_ms, |count| count.total())
    }

    pub fn own(&self, key: &K) -> u64 {
        self.counts.lock().by_key.get(key).map_or(0, |count| count.own)
    }

    /// The sum as the store knows it; as it is known here if the store does not answer.
    pub async fn fresh(&self, key: &K, now_ms: i64) -> u64 {
        let known = self.known(key, now_ms);
        if self.is_local() || self.failing.load(Ordering::Relaxed) {
            return known;
        }
        self.exchange_in_time(key, now_ms).await;
        self.counts.lock().by_key.get(key).map_or(known, Count::total)
    }

    /// Like [`SharedCounts::take`], but exchanges first if unknown counts of other replicas could exceed the limit by
    /// more than a thousandth.
    ///
    /// Between two exchanges a replica counts up to a thousandth of the requests left, plus a sixteenth of a thousandth
    /// of the limit; so several together stay within the thousandth.
    pub async fn take_strictly(&self, key: &K, limit: u64, now_ms: i64) -> bool {
        let exclusive = self.backend.is_exclusive();
        if exclusive && self.counts.lock().by_key.get(key).is_none_or(|count| count.exchanged_at.is_none()) {
            // Reads an earlier process's count.
            self.fresh(key, now_ms).await;
        }
        let (allowed, certain) = self.update_count(key, now_ms, |count| {
            let left = limit.saturating_sub(count.total());
            // On the embedded store a write is cheap, and an unstored count is lost with the process.
            count.hold_to(limit, if exclusive { 0 } else { limit / UNKNOWN_PART / 2 });
            if left == 0 {
                return (false, true);
            }
            count.own += 1;
            let unknown = count.own.saturating_sub(count.stored);
            let fresh = if count.is_younger(FRESH_MS, now_ms) { left / 1_000 } else { 0 };
            let room = if exclusive { u64::MAX } else { fresh + limit / UNKNOWN_PART };
            (true, unknown <= room)
        });
        if certain || self.failing.load(Ordering::Relaxed) {
            return allowed;
        }
        self.exchange_in_time(key, now_ms).await;
        let mut counts = self.counts.lock();
        let Some(count) = counts.by_key.get_mut(key) else { return allowed };
        if count.total() <= limit {
            return true;
        }
        count.own = count.own.saturating_sub(1);
        drop(counts);
        self.known(key, now_ms);
        false
    }

    async fn exchange_in_time(&self, key: &K, now_ms: i64) {
        let late = |_| Err(StoreError::Unavailable("counts are not exchanged in time".to_owned()));
        self.note_outcome(&timeout(EXCHANGE_TIMEOUT, self.exchange(key, now_ms)).await.unwrap_or_else(late));
    }

    /// Stores the own count, then reads the others'.
    async fn exchange(&self, key: &K, now_ms: i64) -> StoreResult<()> {
        let Some((turn, uses)) = self.counts.lock().by_key.get(key).map(|count| (Arc::clone(&count.turn), count.uses))
        else {
            return Ok(());
        };
        let _turn = turn.lock().await;
        let exclusive = self.backend.is_exclusive();
        if exclusive && self.counts.lock().by_key.get(key).is_some_and(|count| count.exchanged_at.is_none()) {
            // Only on the embedded store may an earlier process have counted under the same name.
            let (own, version, _) = self.read(key).await?;
            if let Some(count) = self.counts.lock().by_key.get_mut(key) {
                (count.own, count.stored, count.version) = (count.own + own, own, version);
                count.exchanged_at = Some(now_ms);
            }
        }
        let Some((own, stored, version, covered)) = self.counts.lock().by_key.get_mut(key).and_then(|count| {
            // None if another exchange has covered these uses.
            (count.covered < uses).then(|| {
                if count.own != count.stored {
                    // The version grows with time, so that the store can remove expired rows.
                    count.version = now_ms.max(count.version + 1);
                }
                (count.own, count.stored, count.version, count.uses)
            })
        }) else {
            return Ok(());
        };
        if own != stored {
            let row = CountRow { replica: self.replica.clone(), version, count: own };
            self.stored.table.write(&self.backend, key.partition(), row).await?;
        }
        let others = if exclusive { 0 } else { self.read(key).await?.2 };
        let mut counts = self.counts.lock();
        let Counts { by_key, pending } = &mut *counts;
        if let Some(count) = by_key.get_mut(key) {
            (count.stored, count.others, count.covered, count.exchanged_at) = (own, others, covered, Some(now_ms));
            if count.uses > covered {
                pending.push(key.clone());
            }
        }
        Ok(())
    }

    /// The own stored count with its row's version, and the sum of the others'.
    async fn read(&self, key: &K) -> StoreResult<(u64, i64, u64)> {
        let (mut own, mut version, mut others) = (0, 0, 0);
        for row in self.stored.table.read(&self.backend, key.partition()).await? {
            if row.replica == self.replica {
                (own, version) = (row.count, row.version);
            } else {
                others += row.count;
            }
        }
        Ok((own, version, others))
    }

    /// Notes whether the store answers; logs a failure once.
    fn note_outcome(&self, outcome: &StoreResult<()>) {
        let was = self.failing.swap(outcome.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (outcome, was) {
            let table = self.stored.table.name();
            tracing::warn!(%error, table, "counts are not exchanged; this replica goes on with its own");
        }
    }

    /// Exchanges counts that were in use since their last exchange and are due.
    pub async fn exchange_due(&self, now_ms: i64) {
        self.exchange_if(|count| count.is_due(now_ms), now_ms).await;
    }

    /// Exchanges all counts that were in use since their last exchange.
    pub async fn exchange_all(&self, now_ms: i64) {
        self.exchange_if(|_| true, now_ms).await;
    }

    async fn exchange_if(&self, is_due: impl Fn(&Count) -> bool, now_ms: i64) {
        let due: Vec<K> = {
            let mut counts = self.counts.lock();
            let Counts { by_key, pending } = &mut *counts;
            pending.extract_if(.., |key| by_key.get(key).is_none_or(&is_due)).collect()
        };
        let exchanges = stream::iter(due).for_each_concurrent(MAX_PARALLEL, |key| async move {
            let outcome = self.exchange(&key, now_ms).await;
            if outcome.is_err() {
                self.counts.lock().pending.push(key);
            }
            self.note_outcome(&outcome);
        });
        exchanges.await;
    }

    /// Exchanges due counts until stopped.
    pub async fn run(&self, clock: &dyn Clock, stop: &CancellationToken) {
        if self.is_local() {
            return;
        }
        let mut every = tokio::time::interval(POLL_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.due.notified() => {}
                _ = every.tick() => {}
            }
            self.exchange_due(clock.now_ms()).await;
            if self.failing.load(Ordering::Relaxed) {
                tokio::time::sleep(EXCHANGE_TIMEOUT).await;
            }
        }
    }

    pub fn has(&self, key: &K) -> bool {
        self.counts.lock().by_key.contains_key(key)
    }

    pub fn size(&self) -> usize {
        self.counts.lock().by_key.len()
    }

    /// Reads the others' counts once more for counts whose time is over and whose known sum is below the limit. It
    /// reads at most `max` counts, the largest own counts first.
    pub async fn read_ended(&self, max: usize, now_ms: i64) {
        if self.is_local() {
            return;
        }
        let mut ended: Vec<(u64, K)> = {
            let counts = self.counts.lock();
            let open = counts.by_key.iter().filter(|(key, count)| {
                key.has_ended(now_ms) && count.own >= self.stored.from && count.total() < count.limit
            });
            open.map(|(key, count)| (count.own, key.clone())).collect()
        };
        ended.sort_unstable_by_key(|(own, _)| Reverse(*own));
        ended.truncate(max);
        let reads = stream::iter(ended).for_each_concurrent(MAX_PARALLEL, |(_, key)| async move {
            self.known(&key, now_ms);
            self.note_outcome(&self.exchange(&key, now_ms).await);
        });
        reads.await;
    }

    /// Removes counts whose time is over, unless they must be kept and are not stored yet. Returns each with this
    /// replica's own count and the sum.
    pub fn sweep(&self, now_ms: i64) -> Vec<(K, u64, u64)> {
        let kept = |count: &Count| self.stored.table.is_permanent() && count.own != count.stored;
        let mut counts = self.counts.lock();
        let ended = counts.by_key.extract_if(|key, count| key.has_ended(now_ms) && !kept(count));
        ended.map(|(key, count)| (key, count.own, count.total())).collect()
    }
}
