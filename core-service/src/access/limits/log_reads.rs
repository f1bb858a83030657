//! Limits reads of the trees over the logs by the caller's address, since they need no key.

use std::sync::Arc;

use crate::{
    domain::{
        abuse::{limit_factor, limited_networks},
        window::MINUTE_MS,
    },
    replicas::shared_counts::{SharedCountKey, SharedCounts},
    tables::counts::CountKey,
};

/// Maximum number of reads of an address in a minute.
pub const LOG_READS_PER_MINUTE: u64 = 600;
/// Number of reads of an address in a minute from which they are stored for other replicas. Below that, storing
/// the count would cost about as many writes as there are reads.
pub(super) const STORED_FROM: u64 = 60;

/// A minute's reads of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ReadWindow {
    address: Arc<str>,
    minute: i64,
}

impl SharedCountKey for ReadWindow {
    fn partition(&self) -> CountKey {
        CountKey::of_minute(format!("log/{}", self.address), self.minute)
    }

    fn has_ended(&self, now_ms: i64) -> bool {
        self.minute < now_ms.div_euclid(MINUTE_MS)
    }
}

/// Reads a minute, per address.
pub struct LogReads(pub(super) SharedCounts<ReadWindow>);

impl LogReads {
    /// Counts a read. Returns false when the address, or the /48 network around it, has used up this minute. Addresses
    /// beyond `max_addresses` are not limited: a flood from invented addresses must not use all memory.
    pub(super) fn take(&self, address: &str, max_addresses: usize, now_ms: i64) -> bool {
        let minute = now_ms.div_euclid(MINUTE_MS);
        limited_networks(address).all(|network| {
            let limit = LOG_READS_PER_MINUTE * u64::from(limit_factor(&network));
            let window = ReadWindow { address: network.into(), minute };
            let is_counted = self.0.size() < max_addresses || self.0.has(&window);
            !is_counted || self.0.take(&window, limit, now_ms).0
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        access::limits::Limits,
        store::SharedBackend,
        tests::harness::{ManualClock, NOON, SharedMemory, memory},
    };

    #[tokio::test]
    async fn an_address_reads_the_logs_600_times_a_minute() {
        let limits = Limits::new(&memory(&ManualClock::new()), "embedded");
        let reads = |address: &str, now| (0..700).filter(|_| limits.take_log_read(address, now)).count();
        assert_eq!(reads("192.0.2.1", NOON), 600);
        assert!(!limits.take_log_read("192.0.2.1", NOON + MINUTE_MS - 1));
        assert_eq!((reads("192.0.2.2", NOON), reads("192.0.2.1", NOON + MINUTE_MS)), (600, 600));
        limits.sweep(NOON + MINUTE_MS);
        assert_eq!(limits.log_reads.0.size(), 1);
    }

    #[tokio::test]
    async fn a_48_of_ipv6_has_sixteen_times_the_limit_of_a_64() {
        let limits = Limits::new(&memory(&ManualClock::new()), "embedded");
        let reads = |network: &str| (0..700).filter(|_| limits.take_log_read(network, NOON)).count();
        // Reads that the limit of a /64 refuses do not count in its /48.
        let all: usize = (0..20).map(|number| reads(&format!("2001:db8:1:{number:x}::/64"))).sum();
        assert_eq!((all, reads("2001:db8:2:0::/64")), (16 * 600, 600));
    }

    #[tokio::test]
    async fn addresses_that_are_too_many_are_not_limited() {
        let limits = Limits::new(&memory(&ManualClock::new()), "embedded");
        let take = |address: &str| limits.log_reads.take(address, 1, NOON);
        assert!((0..700).filter(|_| take("192.0.2.1")).count() == 600 && (0..700).all(|_| take("192.0.2.2")));
        assert_eq!(limits.log_reads.0.size(), 1);
    }

    #[tokio::test]
    async fn replicas_count_reads_together() {
        let backend: SharedBackend = SharedMemory::new(&ManualClock::new());
        let replicas = ["rep_a", "rep_b"].map(|name| Limits::new(&backend, name));
        let mut passed = 0;
        for step in 0..1_000 {
            let now = NOON + step * 50;
            for limits in &replicas {
                passed += u64::from(limits.take_log_read("192.0.2.1", now));
                limits.log_reads.0.exchange_due(now).await;
            }
        }
        assert!((600..=660).contains(&passed), "{passed}");
    }
}
