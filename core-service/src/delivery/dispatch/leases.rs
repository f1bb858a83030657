//! The leases of webhook shards: a replica hands out the attempts of its shards. Leases only save duplicate work.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::{
    store::{SharedBackend, StoreResult},
    tables::{deliveries::SHARDS, leases::lease},
};

/// Longest time that a shard's lease lasts.
pub(super) const LEASE_MS: i64 = 10_000;
/// How often it is renewed.
const RENEW_MS: i64 = 3_000;

/// The leases of one replica.
pub(super) struct Leases {
    backend: SharedBackend,
    replica: String,
    /// By shard, until when its lease is held.
    held: Mutex<HashMap<i64, i64>>,
}

impl Leases {
    pub(super) fn new(backend: SharedBackend, replica: String) -> Self {
        Self { backend, replica, held: Mutex::default() }
    }

    /// Whether this replica hands out the attempts of a shard.
    pub(super) fn holds(&self, shard: i64, now_ms: i64) -> bool {
        self.backend.is_exclusive() || self.held.lock().get(&shard).is_some_and(|until| *until > now_ms)
    }

    /// Takes the leases that are free and renews those that are held.
    pub(super) async fn renew(&self, now_ms: i64) -> StoreResult<()> {
        if self.backend.is_exclusive() {
            return Ok(());
        }
        for shard in 0..SHARDS {
            let held = self.held.lock().get(&shard).copied();
            if held.is_some_and(|until| until - now_ms > LEASE_MS - RENEW_MS) {
                continue;
            }
            if self.lease(shard, now_ms, now_ms + LEASE_MS).await? {
                self.held.lock().insert(shard, now_ms + LEASE_MS);
            } else {
                self.held.lock().remove(&shard);
            }
        }
        Ok(())
    }

    /// Writes a lease of this replica if the shard is free or its own.
    pub(super) async fn lease(&self, shard: i64, now_ms: i64, until: i64) -> StoreResult<bool> {
        lease(&self.backend, shard, &self.replica, now_ms, until).await
    }

    /// Gives up all leases.
    pub(super) async fn release(&self, now_ms: i64) {
        let held: Vec<i64> = self.held.lock().drain().map(|(shard, _)| shard).collect();
        for shard in held {
            if let Err(error) = self.lease(shard, now_ms, 0).await {
                tracing::debug!(%error, shard, "giving up a lease failed; it ends by itself");
            }
        }
    }
}
