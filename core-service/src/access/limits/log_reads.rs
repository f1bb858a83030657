//! Reads of the trees over the logs, which need no key: counted by the caller's address.

use std::sync::Arc;

use crate::{
    domain::window::MINUTE_MS,
    replicas::shared_counts::{SharedCountKey, SharedCounts},
    tables::counts::CountKey,
};

/// Maximum number of reads of an address in a minute.
pub const LOG_READS_PER_MINUTE: u64 = 600;
/// Reads of an address in a minute from which they are stored for other replicas: a few would cost as many writes.
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
    /// Counts a read. Returns false when the address has used up this minute. Addresses beyond `max_addresses` are not
    /// limited: a flood from invented addresses must not use all memory.
    pub(super) fn take(&self, address: &str, max_addresses: usize, now_ms: i64) -> bool {
        let window = ReadWindow { address: address.into(), minute: now_ms.div_euclid(MINUTE_MS) };
        let is_counted = self.0.size() < max_addresses || self.0.has(&window);
        !is_counted || self.0.take(&window, LOG_READS_PER_MINUTE, now_ms).0
    }
}
