//! Counts that replicas keep together: each stores its own count, and the sum counts.
//!
//! A replica decides by its own count and the others' counts as last read. An exchange stores its own count and then
//! reads the others'. The first exchange is at once. Later ones, while the count is in use, are every [`NEAR_MS`] near
//! its limit and every [`FAR_MS`] far from it, where a request costs next to nothing. A store that does not answer
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

/// How often a count in use is exchanged near its limit: others' counts are known after twice this and the store's
/// time.
const NEAR_MS: i64 = 100;
/// How often a count in use is exchanged while more than half of its limit is left and little of it is untold.
const FAR_MS: i64 = 2_000;
/// Most that a replica counts before it tells the others: a sixteenth of what it believes is left of the limit. When
/// one replica uses up a limit within [`FAR_MS`], every other one may allow that much beyond the limit.
const UNTOLD: u64 = 16;
/// Most of a strict limit that a replica counts without knowing the others' counts: one in 16,000.
const UNKNOWN: u64 = 16_000;
/// How often counts are searched for those that are due.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Longest time for which the others' counts, once read, are fresh.
const FRESH_MS: i64 = 300;
/// Longest wait of a request for an exchange.
const PATIENCE: Duration = Duration::from_millis(250);
/// Most exchanges under way at once.
const PARALLEL: usize = 32;

/// A key of a count.
pub trait Counted: Clone + Eq + Hash + Send + Sync + 'static {
    /// The partition that has a row of each replica.
    fn partition(&self) -> CountKey;

    /// Whether its time is over.
    fn has_ended(&self, now_ms: i64) -> bool;
}

#[derive(Debug, Default)]
struct Count {
    own: u64,
    others: u64,
    /// The own count as others can read it, and its row's version.
    stored: u64,
    version: i64,
    /// How often it was asked for, and how many of these the last exchange covers.
    asked: u64,
    covered: u64,
    /// When the last exchange began, if there was one.
    exchanged_at: Option<i64>,
    /// The limit it was last held to; 0 where none is known.
    limit: u64,
    /// Most of the own count that may stay untold.
    untold: u64,
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

    /// Notes a limit, and how much may be counted before the others are told.
    const fn hold_to(&mut self, limit: u64, untold: u64) {
        (self.limit, self.untold) = (limit, untold);
    }

    /// Whether the next exchange is due.
    fn is_due(&self, now_ms: i64) -> bool {
        let far = self.total() < self.limit / 2 && self.own.saturating_sub(self.stored) <= self.untold;
        !self.is_younger(if far { FAR_MS } else { NEAR_MS }, now_ms)
    }
}

/// Where counts are stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The table.
    pub table: CountTable,
    /// Least own count that is worth storing.
    pub from: u64,
}

struct Counts<K> {
    by_key: HashMap<K, Count>,
    /// Keys that were asked for since their last exchange.
    pending: Vec<K>,
}

/// Counts of one kind.
pub struct SharedCounts<K> {
    backend: SharedBackend,
    replica: String,
    stored: Stored,
    counts: Mutex<Counts<K>>,
    news: Notify,
    failing: AtomicBool,
}

impl<K: Counted> SharedCounts<K> {
    /// Counts as this replica.
    pub fn new(backend: SharedBackend, replica: String, stored: Stored) -> Self {
        let counts = Mutex::new(Counts { by_key: HashMap::new(), pending: Vec::new() });
        Self { backend, replica, stored, counts, news: Notify::new(), failing: AtomicBool::new(false) }
    }

    /// Whether the counts are in this process's memory only.
    fn is_local(&self) -> bool {
        self.backend.is_exclusive() && !self.stored.table.is_permanent()
    }

    /// Looks at a count and notes that it is in use.
    fn with<T>(&self, key: &K, now_ms: i64, look: impl FnOnce(&mut Count) -> T) -> T {
        let mut counts = self.counts.lock();
        if !counts.by_key.contains_key(key) {
            counts.by_key.insert(key.clone(), Count::default());
        }
        let Counts { by_key, pending } = &mut *counts;
        let Some(count) = by_key.get_mut(key) else { return look(&mut Count::default()) };
        let answer = look(count);
        if !self.is_local() && (count.own >= self.stored.from || count.stored > 0) {
            if count.asked == count.covered {
                pending.push(key.clone());
            }
            count.asked += 1;
            if count.is_due(now_ms) {
                self.news.notify_one();
            }
        }
        answer
    }

    /// Counts one more, whatever the sum; tells the sum, to be compared with `limit`.
    pub fn add(&self, key: &K, limit: u64, now_ms: i64) -> u64 {
        self.with(key, now_ms, |count| {
            count.own += 1;
            count.hold_to(limit, limit.saturating_sub(count.total()) / UNTOLD);
            count.total()
        })
    }

    /// Counts one more if the sum as known here stays within `limit`; tells whether it did, and the sum.
    pub fn take(&self, key: &K, limit: u64, now_ms: i64) -> (bool, u64) {
        self.with(key, now_ms, |count| {
            let allowed = count.total() < limit;
            count.own += u64::from(allowed);
            count.hold_to(limit, limit.saturating_sub(count.total()) / UNTOLD);
            (allowed, count.total())
        })
    }

    /// The sum as it is known here.
    pub fn known(&self, key: &K, now_ms: i64) -> u64 {
        self.with(key, now_ms, |count| count.total())
    }

    /// This replica's own count.
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

    /// Like [`SharedCounts::take`], but exchanges first where counts that the replicas do not know of each other could
    /// exceed the limit by more than a thousandth.
    ///
    /// Between two exchanges a replica counts up to a thousandth of the requests left, plus a sixteenth of a thousandth
    /// of the limit; so several together stay within the thousandth.
    pub async fn take_strictly(&self, key: &K, limit: u64, now_ms: i64) -> bool {
        let exclusive = self.backend.is_exclusive();
        if exclusive && self.counts.lock().by_key.get(key).is_none_or(|count| count.exchanged_at.is_none()) {
            // Reads an earlier process's count.
            self.fresh(key, now_ms).await;
        }
        let (allowed, certain) = self.with(key, now_ms, |count| {
            let left = limit.saturating_sub(count.total());
            // Here a write is cheap, and an unstored count is lost with the process.
            count.hold_to(limit, if exclusive { 0 } else { limit / UNKNOWN / 2 });
            if left == 0 {
                return (false, true);
            }
            count.own += 1;
            let unknown = count.own.saturating_sub(count.stored);
            let fresh = if count.is_younger(FRESH_MS, now_ms) { left / 1_000 } else { 0 };
            let room = if exclusive { u64::MAX } else { fresh + limit / UNKNOWN };
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
        self.note(&timeout(PATIENCE, self.exchange(key, now_ms)).await.unwrap_or_else(late));
    }

    /// Stores the own count, then reads the others'.
    async fn exchange(&self, key: &K, now_ms: i64) -> StoreResult<()> {
        let Some((turn, asked)) =
            self.counts.lock().by_key.get(key).map(|count| (Arc::clone(&count.turn), count.asked))
        else {
            return Ok(());
        };
        let _turn = turn.lock().await;
        let exclusive = self.backend.is_exclusive();
        if exclusive && self.counts.lock().by_key.get(key).is_some_and(|count| count.exchanged_at.is_none()) {
            // Only here may an earlier process have counted under the same name.
            let (own, version, _) = self.read(key).await?;
            if let Some(count) = self.counts.lock().by_key.get_mut(key) {
                (count.own, count.stored, count.version) = (count.own + own, own, version);
                count.exchanged_at = Some(now_ms);
            }
        }
        let Some((own, stored, version, covered)) = self.counts.lock().by_key.get_mut(key).and_then(|count| {
            // None if another exchange has covered this one.
            (count.covered < asked).then(|| {
                if count.own != count.stored {
                    // It grows with time, so that the store can forget what has expired.
                    count.version = now_ms.max(count.version + 1);
                }
                (count.own, count.stored, count.version, count.asked)
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
            if count.asked > covered {
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
    fn note(&self, outcome: &StoreResult<()>) {
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
        let exchanges = stream::iter(due).for_each_concurrent(PARALLEL, |key| async move {
            let outcome = self.exchange(&key, now_ms).await;
            if outcome.is_err() {
                self.counts.lock().pending.push(key);
            }
            self.note(&outcome);
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
                () = self.news.notified() => {}
                _ = every.tick() => {}
            }
            self.exchange_due(clock.now_ms()).await;
            if self.failing.load(Ordering::Relaxed) {
                tokio::time::sleep(PATIENCE).await;
            }
        }
    }

    /// Whether it counts anything under this key.
    pub fn has(&self, key: &K) -> bool {
        self.counts.lock().by_key.contains_key(key)
    }

    /// How many counts there are.
    pub fn size(&self) -> usize {
        self.counts.lock().by_key.len()
    }

    /// Reads the others' counts once more where the time is over and the sum, as it is known here, is below its limit:
    /// for `most` counts, those with the largest own first.
    pub async fn read_ended(&self, most: usize, now_ms: i64) {
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
        ended.truncate(most);
        let reads = stream::iter(ended).for_each_concurrent(PARALLEL, |(_, key)| async move {
            self.known(&key, now_ms);
            self.note(&self.exchange(&key, now_ms).await);
        });
        reads.await;
    }

    /// Forgets counts whose time is over, unless they must be kept and are not stored yet. Gives each with this
    /// replica's own count and the sum.
    pub fn sweep(&self, now_ms: i64) -> Vec<(K, u64, u64)> {
        let kept = |count: &Count| self.stored.table.is_permanent() && count.own != count.stored;
        let mut counts = self.counts.lock();
        let ended = counts.by_key.extract_if(|key, count| key.has_ended(now_ms) && !kept(count));
        ended.map(|(key, count)| (key, count.own, count.total())).collect()
    }
}
