//! Rate windows, the month's quota, open streams and failed authentications, counted in memory.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use parking_lot::Mutex;

use super::error::Result;
use crate::{
    domain::{operation::RateClass, window::MINUTE_MS},
    key,
    store::{Change, Scan, SharedBackend, tables},
};

/// Failed authentications that one address has in a minute.
pub const AUTH_FAILURES_PER_MINUTE: u32 = 20;

/// A rate window after a request was counted, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// The class counted.
    pub class: RateClass,
    /// Requests allowed in the window.
    pub limit: u32,
    /// Requests left.
    pub remaining: u32,
    /// Unix seconds at which the window ends.
    pub reset: i64,
    /// Whether this request was within the limit.
    pub allowed: bool,
}

/// A project, whether live, and the class counted.
type Window = (Arc<str>, bool, RateClass);

/// Requests a minute, per project, environment and class; windows are whole UTC minutes.
#[derive(Debug, Default)]
pub struct RateWindows {
    windows: Mutex<HashMap<Window, (i64, u32)>>,
}

impl RateWindows {
    fn look(&self, project: &Arc<str>, live: bool, class: RateClass, limit: u32, now_ms: i64, take: bool) -> Rate {
        let minute = now_ms.div_euclid(MINUTE_MS);
        let mut windows = self.windows.lock();
        let (of, used) = windows.entry((Arc::clone(project), live, class)).or_insert((minute, 0));
        if *of != minute {
            (*of, *used) = (minute, 0);
        }
        let allowed = *used < limit;
        if allowed && take {
            *used += 1;
        }
        Rate { class, limit, remaining: limit.saturating_sub(*used), reset: (minute + 1) * 60, allowed }
    }

    /// Counts a request.
    pub fn take(&self, project: &Arc<str>, live: bool, class: RateClass, limit: u32, now_ms: i64) -> Rate {
        self.look(project, live, class, limit, now_ms, true)
    }

    /// Tells a window without counting.
    pub fn peek(&self, project: &Arc<str>, live: bool, class: RateClass, limit: u32, now_ms: i64) -> Rate {
        self.look(project, live, class, limit, now_ms, false)
    }

    /// Forgets windows that have ended.
    pub fn sweep(&self, now_ms: i64) {
        let minute = now_ms.div_euclid(MINUTE_MS);
        self.windows.lock().retain(|_, (of, _)| *of >= minute);
    }
}

/// Failed authentications a minute, per client address.
#[derive(Debug, Default)]
pub struct AuthFailures {
    counts: Mutex<HashMap<String, (i64, u32)>>,
}

impl AuthFailures {
    /// Counts a failure; false when the address has had too many.
    pub fn record(&self, address: &str, now_ms: i64) -> bool {
        let minute = now_ms.div_euclid(MINUTE_MS);
        let mut counts = self.counts.lock();
        let (of, count) = counts.entry(address.to_owned()).or_insert((minute, 0));
        if *of != minute {
            (*of, *count) = (minute, 0);
        }
        *count = count.saturating_add(1);
        if *count == AUTH_FAILURES_PER_MINUTE + 1 {
            tracing::warn!(address, "too many failed authentications from one address");
        }
        *count <= AUTH_FAILURES_PER_MINUTE
    }

    /// Forgets minutes that have ended.
    pub fn sweep(&self, now_ms: i64) {
        let minute = now_ms.div_euclid(MINUTE_MS);
        self.counts.lock().retain(|_, (of, _)| *of >= minute);
    }
}

/// Open streams per project.
#[derive(Debug, Default)]
pub struct StreamSlots {
    open: Mutex<HashMap<Arc<str>, u32>>,
}

/// A stream's place among the open ones; given back when dropped.
#[derive(Debug)]
pub struct StreamSlot {
    slots: Weak<StreamSlots>,
    project: Arc<str>,
}

impl StreamSlots {
    /// Takes a place if fewer than `limit` are open.
    ///
    /// # Errors
    /// How many are open, when all are taken.
    pub fn take(self: &Arc<Self>, project: &Arc<str>, limit: u32) -> std::result::Result<StreamSlot, u32> {
        let mut open = self.open.lock();
        let count = open.entry(Arc::clone(project)).or_default();
        if *count >= limit {
            return Err(*count);
        }
        *count += 1;
        Ok(StreamSlot { slots: Arc::downgrade(self), project: Arc::clone(project) })
    }

    /// How many streams a project has open.
    pub fn open(&self, project: &str) -> u32 {
        self.open.lock().get(project).copied().unwrap_or_default()
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        if let Some(slots) = self.slots.upgrade() {
            let mut open = slots.open.lock();
            if let Some(count) = open.get_mut(&self.project) {
                *count -= 1;
                if *count == 0 {
                    open.remove(&self.project);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Count {
    own: u64,
    others: u64,
    dirty: bool,
}

/// Requests a month per organization: each replica stores its own count, the sum is what was used.
pub struct Quota {
    backend: SharedBackend,
    replica: String,
    counts: Mutex<HashMap<(String, String), Count>>,
}

/// The UTC month of a time, `YYYY-MM`, with its first and the next one's first millisecond.
#[must_use]
pub fn month_of(now_ms: i64) -> (String, i64, i64) {
    let now = jiff::Timestamp::from_millisecond(now_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let first = now.to_zoned(jiff::tz::TimeZone::UTC).date().first_of_month();
    let next = first.saturating_add(jiff::Span::new().months(1));
    let millis = |date: jiff::civil::Date| {
        date.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp().as_millisecond()).unwrap_or_default()
    };
    (first.strftime("%Y-%m").to_string(), millis(first), millis(next))
}

impl Quota {
    /// Counts as this replica.
    #[must_use]
    pub fn new(backend: SharedBackend, replica: String) -> Self {
        Self { backend, replica, counts: Mutex::default() }
    }

    async fn load(&self, organization: &str, month: &str) -> Result<Count> {
        let scan = Scan::all(&tables::USAGE, key![organization, month], 1_000);
        let mut count = Count { own: 0, others: 0, dirty: false };
        for row in self.backend.scan(&scan).await? {
            let used = u64::try_from(row.version).unwrap_or_default();
            if row.clustering.first().is_some_and(|replica| replica.text() == self.replica) {
                count.own = used;
            } else {
                count.others += used;
            }
        }
        Ok(count)
    }

    async fn with<T>(&self, organization: &str, now_ms: i64, look: impl Fn(&mut Count) -> T) -> Result<T> {
        let entry = (organization.to_owned(), month_of(now_ms).0);
        if let Some(count) = self.counts.lock().get_mut(&entry) {
            return Ok(look(count));
        }
        let loaded = self.load(&entry.0, &entry.1).await?;
        Ok(look(self.counts.lock().entry(entry).or_insert(loaded)))
    }

    /// Counts a request if the month's `limit` allows it; tells whether it did.
    ///
    /// # Errors
    /// When the month's count has to be read first and the store does not answer.
    pub async fn take(&self, organization: &str, limit: u64, now_ms: i64) -> Result<bool> {
        self.with(organization, now_ms, |count| {
            let allowed = count.own + count.others < limit;
            if allowed {
                count.own += 1;
                count.dirty = true;
            }
            allowed
        })
        .await
    }

    /// Requests counted this month.
    ///
    /// # Errors
    /// When the month's count has to be read first and the store does not answer.
    pub async fn used(&self, organization: &str, now_ms: i64) -> Result<u64> {
        self.with(organization, now_ms, |count| count.own + count.others).await
    }

    /// Stores what was counted since, and reads what other replicas counted.
    ///
    /// # Errors
    /// When the store does not answer; nothing is lost then, the next flush does it.
    pub async fn flush(&self, now_ms: i64) -> Result<()> {
        let month = month_of(now_ms).0;
        let snapshot: Vec<_> = {
            let mut counts = self.counts.lock();
            counts.retain(|(_, of), count| *of == month || count.dirty);
            counts.iter().map(|(entry, count)| (entry.clone(), *count)).collect()
        };
        for ((organization, month), count) in snapshot {
            if count.dirty {
                // The version is the count itself: it only grows.
                let change = Change {
                    table: &tables::USAGE,
                    key: key![&organization, &month, &self.replica],
                    version: i64::try_from(count.own).unwrap_or(i64::MAX),
                    body: Some(bytes::Bytes::new()),
                    ttl: None,
                };
                self.backend.apply(vec![change]).await?;
            }
            let others =
                if self.backend.is_exclusive() { count.others } else { self.load(&organization, &month).await?.others };
            if let Some(current) = self.counts.lock().get_mut(&(organization, month)) {
                current.others = others;
                current.dirty = current.own != count.own;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_allows_its_limit_and_starts_anew_each_minute() {
        let windows = RateWindows::default();
        let project: Arc<str> = "prj_1".into();
        let take = |now| windows.take(&project, false, RateClass::Heavy, 2, now);
        assert_eq!((take(59_000).remaining, take(59_001).remaining), (1, 0));
        let refused = take(59_999);
        assert_eq!((refused.allowed, refused.remaining, refused.reset), (false, 0, 60));
        assert!(take(60_000).allowed);
        assert!(windows.take(&project, true, RateClass::Heavy, 2, 60_000).remaining == 1, "environments count apart");
    }

    #[test]
    fn months_are_utc() {
        let (month, start, end) = month_of(1_767_225_599_999);
        assert_eq!((month.as_str(), end), ("2025-12", 1_767_225_600_000));
        assert_eq!(month_of(end).0, "2026-01");
        assert_eq!(month_of(start).0, "2025-12");
    }

    #[test]
    fn the_twenty_first_failure_in_a_minute_is_too_many() {
        let failures = AuthFailures::default();
        assert!((0..20).all(|_| failures.record("192.0.2.1", 5)));
        assert!(!failures.record("192.0.2.1", 6));
        assert!(failures.record("192.0.2.2", 6));
        assert!(failures.record("192.0.2.1", MINUTE_MS));
    }

    #[test]
    fn a_stream_slot_comes_back_when_dropped() {
        let slots = Arc::new(StreamSlots::default());
        let project: Arc<str> = "prj_1".into();
        let first = slots.take(&project, 1);
        assert_eq!(slots.take(&project, 1).err(), Some(1));
        drop(first);
        assert_eq!(slots.open("prj_1"), 0);
        assert!(slots.take(&project, 1).is_ok());
    }
}
