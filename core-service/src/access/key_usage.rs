//! The use of keys: requests and errors by hour, key and class, and the time of the last use.
//!
//! Every request is counted in memory. Once a minute this replica stores its whole counts, so that a write in doubt may
//! be repeated. Readers add the counts of all replicas. A killed process loses the counts of its last minute.

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use thesis_net::clock::Clock;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::{
    domain::{control::ApiKey, operation::RateClass, window::HOUR_MS},
    store::{Change, SharedBackend, StoreResult},
    tables::key_usage::{self, Requests, UsageKey},
};

/// Interval between two writes of the counts.
const STORE_INTERVAL: Duration = Duration::from_mins(1);
/// Maximum number of rows in one read or write.
const MAX_ROWS: usize = 500;
/// Time for which an hour's counts stay in memory after its begin, in milliseconds: responses come after requests.
const MEMORY_MS: i64 = 2 * HOUR_MS;
/// The classes in the order of the counts.
const CLASSES: [RateClass; 3] = [RateClass::Standard, RateClass::Heavy, RateClass::Verify];

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    own: Requests,
    /// The part of it that is stored.
    stored: Requests,
    /// The count that an earlier process stored under this replica's name; none until it was read.
    before: Option<Requests>,
    version: i64,
}

#[derive(Debug)]
struct Hour {
    /// The begin of the hour, in unix milliseconds.
    start: i64,
    counts: [Count; CLASSES.len()],
}

#[derive(Debug)]
struct KeyCounts {
    project: String,
    /// The time of the last use, and the last use that is stored, in unix milliseconds.
    last: i64,
    last_stored: i64,
    /// The hours, the latest last.
    hours: Vec<Hour>,
}

impl KeyCounts {
    fn of(project: &str) -> Self {
        Self { project: project.to_owned(), last: 0, last_stored: 0, hours: Vec::new() }
    }

    fn count(&mut self, class: RateClass, start: i64) -> &mut Count {
        let known = self.hours.iter().rposition(|hour| hour.start == start);
        let at = known.unwrap_or_else(|| {
            self.hours.push(Hour { start, counts: Default::default() });
            self.hours.len() - 1
        });
        &mut self.hours[at].counts[class as usize]
    }
}

struct DueCount {
    of: UsageKey,
    own: Requests,
    change: Change,
}

pub struct KeyUsage {
    backend: SharedBackend,
    replica: String,
    /// By the key's id.
    used: Mutex<HashMap<String, KeyCounts>>,
    /// Lock for one write at a time.
    turn: tokio::sync::Mutex<()>,
    failing: AtomicBool,
}

impl KeyUsage {
    pub fn new(backend: SharedBackend, replica: String) -> Self {
        let (used, turn) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { backend, replica, used, turn, failing: AtomicBool::new(false) }
    }

    pub fn count(&self, key: &ApiKey, class: RateClass, now_ms: i64) {
        self.update(key, class, now_ms, |count| count.own.requests += 1);
    }

    /// Counts an error of a counted request. `now_ms` is the time at which the request was counted.
    pub fn count_error(&self, key: &ApiKey, class: RateClass, now_ms: i64) {
        self.update(key, class, now_ms, |count| count.own.errors += 1);
    }

    fn update(&self, key: &ApiKey, class: RateClass, now_ms: i64, add: impl FnOnce(&mut Count)) {
        let start = now_ms - now_ms.rem_euclid(HOUR_MS);
        let mut all = self.used.lock();
        // Only the first request of a key copies its names.
        let used = match all.get_mut(&key.id) {
            Some(used) => used,
            None => all.entry(key.id.clone()).or_insert_with(|| KeyCounts::of(&key.project_id)),
        };
        used.last = used.last.max(now_ms);
        add(used.count(class, start));
    }

    /// Stores the counts once a minute until stopped.
    pub async fn run(&self, clock: &dyn Clock, stop: &CancellationToken) {
        let mut every = tokio::time::interval(STORE_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            stop.run_until_cancelled(self.flush(clock.now_ms())).await;
        }
    }

    /// Stores the new counts. After a failure they stay for the next time.
    pub async fn flush(&self, now_ms: i64) {
        let _turn = self.turn.lock().await;
        let outcome = self.store(now_ms).await;
        let was = self.failing.swap(outcome.is_err(), Ordering::Relaxed);
        if let (Err(error), false) = (&outcome, was) {
            tracing::warn!(%error, "what keys are used for is not stored, trying again");
        }
        self.forget(now_ms);
    }

    async fn store(&self, now_ms: i64) -> StoreResult<()> {
        for keys in self.unread().chunks(MAX_ROWS) {
            let found = key_usage::own(&self.backend, keys, &self.replica).await?;
            for (of, (before, version)) in keys.iter().zip(found) {
                self.update_known(of, |count| (count.before, count.version) = (Some(before), version));
            }
        }
        for due in self.due(now_ms).chunks(MAX_ROWS) {
            self.backend.apply(due.iter().map(|due| due.change.clone()).collect()).await?;
            for DueCount { of, own, .. } in due {
                self.update_known(of, |count| count.stored = *own);
            }
        }
        for uses in self.new_uses().chunks(MAX_ROWS) {
            let changes = uses.iter().map(|(project, key, at)| key_usage::use_change(project, key, *at));
            self.backend.apply(changes.collect()).await?;
            let mut all = self.used.lock();
            for (_, key, at) in uses {
                if let Some(used) = all.get_mut(key) {
                    used.last_stored = *at;
                }
            }
        }
        Ok(())
    }

    fn update_known(&self, of: &UsageKey, note: impl FnOnce(&mut Count)) {
        if let Some(used) = self.used.lock().get_mut(&of.key) {
            note(used.count(of.class, of.hour));
        }
    }

    /// Collects the counts that are not stored yet and that `is_chosen` accepts, converted by `convert`.
    fn collect_unstored<T>(
        &self,
        is_chosen: impl Fn(&Count) -> bool,
        mut convert: impl FnMut(UsageKey, &mut Count) -> Option<T>,
    ) -> Vec<T> {
        let mut collected = Vec::new();
        for (key, used) in self.used.lock().iter_mut() {
            for Hour { start, counts } in &mut used.hours {
                for (count, class) in counts.iter_mut().zip(CLASSES) {
                    if count.own != count.stored && is_chosen(count) {
                        let (project, key) = (used.project.clone(), key.clone());
                        collected.extend(convert(UsageKey { project, key, hour: *start, class }, count));
                    }
                }
            }
        }
        collected
    }

    /// Counts whose row was not read yet. An earlier process on the embedded store had the same replica name.
    fn unread(&self) -> Vec<UsageKey> {
        self.collect_unstored(|count| count.before.is_none(), |of, _| Some(of))
    }

    /// The counts to store. Counts whose row was not read yet are left for the next time.
    fn due(&self, now_ms: i64) -> Vec<DueCount> {
        self.collect_unstored(
            |count| count.before.is_some(),
            |of, count| {
                let whole = count.before?.plus(count.own);
                // The version grows with each try, and with time, so that the store can remove expired rows.
                count.version = now_ms.max(count.version + 1);
                let change = key_usage::change(&of, &self.replica, whole, count.version);
                Some(DueCount { of, own: count.own, change })
            },
        )
    }

    /// The last uses that are not stored yet: project, key and time.
    fn new_uses(&self) -> Vec<(String, String, i64)> {
        let all = self.used.lock();
        let new = all.iter().filter(|(_, used)| used.last != used.last_stored);
        new.map(|(key, used)| (used.project.clone(), key.clone(), used.last)).collect()
    }

    /// Removes ended hours once they are stored, and keys without further hours.
    fn forget(&self, now_ms: i64) {
        self.used.lock().retain(|_, used| {
            used.hours.retain(|hour| {
                now_ms < hour.start + MEMORY_MS || hour.counts.iter().any(|count| count.own != count.stored)
            });
            !used.hours.is_empty() || used.last != used.last_stored
        });
    }
}
