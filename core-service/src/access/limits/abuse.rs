//! Stores addresses that fail to authenticate too often. Memory and writes a second are limited, so that a flood from
//! many addresses is no flood of writes. Addresses without room are only logged.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use super::{Failures, SharedCountKey as _};
use crate::{
    domain::{abuse::BadMinute, window::MINUTE_MS},
    store::{SharedBackend, StoreResult},
    tables::abuse,
};

/// Maximum number of bad minutes of addresses that wait to be stored.
const MAX_PENDING: usize = 1_200;
/// Maximum number of bad minutes in one write.
const MAX_WRITES: usize = 20;

/// A bad minute, and the number of its writes.
struct PendingMinute {
    bad: BadMinute,
    writes: u32,
}

pub(super) struct BadAddresses {
    backend: SharedBackend,
    replica: String,
    pending: Mutex<HashMap<Failures, PendingMinute>>,
}

impl BadAddresses {
    pub(super) fn new(backend: &SharedBackend, replica: String) -> Self {
        Self { backend: Arc::clone(backend), replica, pending: Mutex::default() }
    }

    /// Notes that an address has failed too often in a minute: `failures` times at this replica, the last one at `at`,
    /// in unix milliseconds.
    pub(super) fn note(&self, key: Failures, failures: u64, at: i64) {
        let mut pending = self.pending.lock();
        if let Some(PendingMinute { bad, .. }) = pending.get_mut(&key) {
            if failures > bad.failures {
                (bad.failures, bad.last_at) = (failures, at);
            }
        } else if pending.len() < MAX_PENDING {
            let bad = BadMinute { minute: key.minute, failures, stored: 0, first_at: at, last_at: at };
            pending.insert(key, PendingMinute { bad, writes: 0 });
        }
    }

    /// Notes a bad minute at its end, when the last counts of other replicas are known.
    pub(super) fn note_end(&self, key: Failures, failures: u64) {
        let last_ms = (key.minute + 1) * MINUTE_MS - 1;
        self.note(key, failures, last_ms);
    }

    /// Stores new failures. After an error they stay for the next time.
    pub(super) async fn flush(&self, now_ms: i64) {
        if let Err(error) = self.store(now_ms).await {
            tracing::warn!(%error, "storing addresses that fail to authenticate too often failed, trying again");
        }
    }

    /// Stores new failures: the earliest minute first, and in a minute the addresses with the fewest writes.
    async fn store(&self, now_ms: i64) -> StoreResult<()> {
        let mut new: Vec<(Failures, BadMinute, u32)> = {
            let mut pending = self.pending.lock();
            // An ended minute gets no new failures once its end was noted, which is a moment later.
            pending.retain(|key, PendingMinute { bad, .. }| {
                bad.failures > bad.stored || !key.has_ended(now_ms - MINUTE_MS)
            });
            let new = pending.iter().filter(|(_, PendingMinute { bad, .. })| bad.failures > bad.stored);
            new.map(|(key, PendingMinute { bad, writes })| (key.clone(), *bad, *writes)).collect()
        };
        new.sort_unstable_by_key(|(key, _, writes)| (key.minute, *writes));
        for (key, bad, _) in new.into_iter().take(MAX_WRITES) {
            abuse::note(&self.backend, &self.replica, &key.address, &bad).await?;
            if let Some(PendingMinute { bad: known, writes }) = self.pending.lock().get_mut(&key) {
                known.stored = bad.failures;
                *writes += 1;
            }
        }
        Ok(())
    }
}
