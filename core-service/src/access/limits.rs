//! Rate windows, the month's quota and failed authentications, counted by all replicas together.
//!
//! Addresses that fail to authenticate 20 times in a minute, and /48 networks that do so 320 times, are kept for 30
//! days.

mod abuse;
mod log_reads;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use thesis_net::clock::Clock;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

pub use self::log_reads::LOG_READS_PER_MINUTE;
use self::{
    abuse::BadAddresses,
    log_reads::{LogReads, STORED_FROM},
};
use crate::{
    domain::{
        abuse::{limit_factor, limited_networks},
        operation::RateClass,
        window::MINUTE_MS,
    },
    replicas::shared_counts::{CountStorage, SharedCountKey, SharedCounts},
    store::SharedBackend,
    tables::counts::{CountKey, CountTable},
};

/// Maximum number of failed authentications of one address in a minute.
pub const AUTH_FAILURES_PER_MINUTE: u64 = 20;
/// Maximum number of test sends and replays of a project in a minute.
pub const SENDS_PER_MINUTE: u64 = 10;
/// Maximum number of addresses whose failures are counted. A flood from invented addresses must not use all memory.
const MAX_ADDRESSES: usize = 100_000;
/// Interval in which bad minutes of addresses are closed and stored.
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// Time after a minute at which every replica's failures in it can be read, in milliseconds.
const SETTLED_MS: i64 = 3_000;
/// Maximum number of addresses whose failures are read again when their minute is over. The worst ones come first.
const MAX_CLOSED: usize = 1_000;
/// Seconds for which the counts of a minute are kept.
pub const MINUTE_KEPT: u32 = 300;

/// A rate window after a request was counted, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub class: RateClass,
    pub limit: u32,
    pub remaining: u32,
    /// Unix seconds at which the window ends.
    pub reset: i64,
    pub allowed: bool,
}

/// A minute's requests of a class, per project and environment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Window {
    project: Arc<str>,
    live: bool,
    class: RateClass,
    minute: i64,
}

impl SharedCountKey for Window {
    fn partition(&self) -> CountKey {
        let environment = if self.live { "live" } else { "test" };
        CountKey::of_minute(format!("{}/{environment}/{}", self.project, self.class.as_str()), self.minute)
    }

    fn has_ended(&self, now_ms: i64) -> bool {
        self.minute < now_ms.div_euclid(MINUTE_MS)
    }
}

/// Requests a minute, per project, environment and class; windows are whole UTC minutes.
pub struct RateWindows(SharedCounts<Window>);

impl RateWindows {
    fn window(project: &Arc<str>, live: bool, class: RateClass, now_ms: i64) -> Window {
        Window { project: Arc::clone(project), live, class, minute: now_ms.div_euclid(MINUTE_MS) }
    }

    fn rate(window: &Window, limit: u32, allowed: bool, used: u64) -> Rate {
        let remaining = limit.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX));
        Rate { class: window.class, limit, remaining, reset: (window.minute + 1) * 60, allowed }
    }

    pub fn take(&self, project: &Arc<str>, live: bool, class: RateClass, limit: u32, now_ms: i64) -> Rate {
        let window = Self::window(project, live, class, now_ms);
        let (allowed, used) = self.0.take(&window, limit.into(), now_ms);
        Self::rate(&window, limit, allowed, used)
    }

    /// The window as it is known here, without counting.
    pub fn peek(&self, project: &Arc<str>, live: bool, class: RateClass, limit: u32, now_ms: i64) -> Rate {
        let window = Self::window(project, live, class, now_ms);
        let used = self.0.known(&window, now_ms);
        Self::rate(&window, limit, used < limit.into(), used)
    }

    /// The window as all replicas together know it, without counting.
    pub async fn fresh(&self, project: &Arc<str>, live: bool, class: RateClass, limit: u32, now_ms: i64) -> Rate {
        let window = Self::window(project, live, class, now_ms);
        let used = self.0.fresh(&window, now_ms).await;
        Self::rate(&window, limit, used < limit.into(), used)
    }
}

/// A minute's failed authentications of a client address, or of a network of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Failures {
    address: Arc<str>,
    minute: i64,
}

impl Failures {
    fn limit(&self) -> u64 {
        AUTH_FAILURES_PER_MINUTE * u64::from(limit_factor(&self.address))
    }
}

impl SharedCountKey for Failures {
    fn partition(&self) -> CountKey {
        CountKey::of_minute(format!("address/{}", self.address), self.minute)
    }

    fn has_ended(&self, now_ms: i64) -> bool {
        self.minute < now_ms.div_euclid(MINUTE_MS)
    }
}

/// Failed authentications a minute, per client address.
pub struct AuthFailures(SharedCounts<Failures>, BadAddresses);

impl AuthFailures {
    /// Counts a failure. Returns false when the address or its network has too many. Failures that the address's own
    /// limit refuses do not count in the network: a single broken client must not use up the limit of its neighbours.
    pub fn record(&self, address: &str, now_ms: i64) -> bool {
        limited_networks(address).all(|network| self.record_in(&network, now_ms))
    }

    fn record_in(&self, network: &str, now_ms: i64) -> bool {
        let key = Failures { address: network.into(), minute: now_ms.div_euclid(MINUTE_MS) };
        if self.0.size() >= MAX_ADDRESSES && !self.0.has(&key) {
            return true;
        }
        let limit = key.limit();
        let failures = self.0.add(&key, limit, now_ms);
        if failures >= limit {
            let own = self.0.own(&key);
            self.1.note(key, own, now_ms);
        }
        failures <= limit
    }

    /// Closes minutes that have ended, and stores new bad ones, until stopped.
    async fn run(&self, clock: &dyn Clock, stop: &CancellationToken) {
        let mut every = tokio::time::interval(STORE_INTERVAL);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while stop.run_until_cancelled(every.tick()).await.is_some() {
            self.close(clock.now_ms()).await;
            self.1.flush(clock.now_ms()).await;
        }
    }

    /// Removes ended minutes, and notes the failures of each address for the abuse review. Only now are the others'
    /// failures certain: a replica may have read them last early in the minute.
    async fn close(&self, now_ms: i64) {
        let ended_by = now_ms - SETTLED_MS;
        self.0.read_ended(MAX_CLOSED, ended_by).await;
        for (key, own, failures) in self.0.sweep(ended_by) {
            let limit = key.limit();
            if failures >= limit {
                self.1.note_end(key.clone(), own);
            }
            let Failures { address, minute } = key;
            if failures > limit {
                tracing::warn!(%address, minute, failures, "too many failed authentications");
            } else {
                tracing::info!(%address, minute, failures, "failed authentications");
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Month {
    /// `YYYY-MM`.
    pub name: Arc<str>,
    /// The first millisecond of the month.
    pub start: i64,
    /// The first millisecond of the next month.
    pub end: i64,
}

impl Month {
    pub fn of(now_ms: i64) -> Self {
        let now = jiff::Timestamp::from_millisecond(now_ms).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
        let first = now.to_zoned(jiff::tz::TimeZone::UTC).date().first_of_month();
        let next = first.saturating_add(jiff::Span::new().months(1));
        let millis = |date: jiff::civil::Date| {
            date.to_zoned(jiff::tz::TimeZone::UTC).map(|zoned| zoned.timestamp().as_millisecond()).unwrap_or_default()
        };
        Self { name: first.strftime("%Y-%m").to_string().into(), start: millis(first), end: millis(next) }
    }
}

/// A month's requests of an organization.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Used {
    organization: Arc<str>,
    month: Month,
}

impl SharedCountKey for Used {
    fn partition(&self) -> CountKey {
        CountKey::of_month(&self.organization, &self.month.name)
    }

    fn has_ended(&self, now_ms: i64) -> bool {
        self.month.end <= now_ms
    }
}

/// Requests a month, per organization.
pub struct Quota {
    counts: SharedCounts<Used>,
    month: Mutex<Month>,
}

impl Quota {
    fn key(&self, organization: &str, now_ms: i64) -> Used {
        let mut month = self.month.lock();
        if !(month.start..month.end).contains(&now_ms) {
            *month = Month::of(now_ms);
        }
        Used { organization: organization.into(), month: month.clone() }
    }

    /// Counts a request if the month's `limit` allows it. Returns whether it did.
    pub async fn take(&self, organization: &str, limit: u64, now_ms: i64) -> bool {
        self.counts.take_strictly(&self.key(organization, now_ms), limit, now_ms).await
    }

    pub async fn used(&self, organization: &str, now_ms: i64) -> u64 {
        self.counts.fresh(&self.key(organization, now_ms), now_ms).await
    }
}

/// A minute's test sends and replays of a project.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SendWindow {
    project: Arc<str>,
    minute: i64,
}

impl SharedCountKey for SendWindow {
    fn partition(&self) -> CountKey {
        CountKey::of_minute(format!("{}/sends", self.project), self.minute)
    }

    fn has_ended(&self, now_ms: i64) -> bool {
        self.minute < now_ms.div_euclid(MINUTE_MS)
    }
}

/// Test sends and replays a minute, per project.
pub struct Sends(SharedCounts<SendWindow>);

impl Sends {
    fn window(project: &str, now_ms: i64) -> SendWindow {
        SendWindow { project: project.into(), minute: now_ms.div_euclid(MINUTE_MS) }
    }

    /// True if the project has used up this minute, as far as is known here.
    pub fn is_used_up(&self, project: &str, now_ms: i64) -> bool {
        self.0.known(&Self::window(project, now_ms), now_ms) >= SENDS_PER_MINUTE
    }

    /// Counts a send. Returns false when the project has used up this minute.
    pub fn take(&self, project: &str, now_ms: i64) -> bool {
        self.0.take(&Self::window(project, now_ms), SENDS_PER_MINUTE, now_ms).0
    }
}

pub struct Limits {
    pub rates: RateWindows,
    pub quota: Quota,
    pub failures: AuthFailures,
    pub sends: Sends,
    log_reads: LogReads,
}

impl Limits {
    pub fn new(backend: &SharedBackend, replica: &str) -> Self {
        let minutes = |from| CountStorage { table: CountTable::minutes(MINUTE_KEPT), from };
        let months = CountStorage { table: CountTable::months(), from: 0 };
        let (backend, replica) = (|| Arc::clone(backend), || replica.to_owned());
        Self {
            rates: RateWindows(SharedCounts::new(backend(), replica(), minutes(0))),
            quota: Quota { counts: SharedCounts::new(backend(), replica(), months), month: Mutex::new(Month::of(0)) },
            sends: Sends(SharedCounts::new(backend(), replica(), minutes(0))),
            log_reads: LogReads(SharedCounts::new(backend(), replica(), minutes(STORED_FROM))),
            // A single failure is not stored: a flood from many addresses would become a flood of writes.
            failures: AuthFailures(
                SharedCounts::new(backend(), replica(), minutes(2)),
                BadAddresses::new(&backend(), replica()),
            ),
        }
    }

    /// Counts a read of the trees over the logs. Returns false when the address has used up this minute.
    pub fn take_log_read(&self, address: &str, now_ms: i64) -> bool {
        self.log_reads.take(address, MAX_ADDRESSES, now_ms)
    }

    /// Exchanges counts with other replicas until stopped.
    pub async fn run(&self, clock: &dyn Clock, stop: &CancellationToken) {
        let (rates, failures, months) = (&self.rates.0, &self.failures.0, &self.quota.counts);
        let closing = self.failures.run(clock, stop);
        let (sends, log_reads) = (self.sends.0.run(clock, stop), self.log_reads.0.run(clock, stop));
        tokio::join!(
            rates.run(clock, stop),
            sends,
            log_reads,
            failures.run(clock, stop),
            months.run(clock, stop),
            closing
        );
    }

    /// Stores the counts that must outlive this process.
    pub async fn flush(&self, now_ms: i64) {
        tokio::join!(self.quota.counts.exchange_all(now_ms), self.failures.1.flush(now_ms));
    }

    pub fn sweep(&self, now_ms: i64) {
        self.rates.0.sweep(now_ms);
        self.sends.0.sweep(now_ms);
        self.log_reads.0.sweep(now_ms);
        self.quota.counts.sweep(now_ms);
    }
}
