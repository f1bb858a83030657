//! Observations that clients push through `IngestService`. They count as a feed that is up while it is used.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use thesis_net::metric::seconds;

use crate::{domain::window::MINUTE_MS, metrics::PUSHED, shared::Shared, store::StoreResult, tables::upstream};

/// Interval between two notes of a push for the other cores, in milliseconds.
const NOTE_INTERVAL_MS: i64 = 5_000;
/// Time since a push for which the feed counts as up, in milliseconds (decided in the contract).
const UP_MS: i64 = MINUTE_MS;

pub struct Pushes {
    shared: Arc<Shared>,
    noted_at: AtomicI64,
}

impl Pushes {
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, noted_at: AtomicI64::new(0) }
    }

    /// Notes a push into `live`.
    pub async fn note(&self) -> StoreResult<()> {
        let now_ms = self.shared.clock.now_ms();
        PUSHED.one().set(seconds(now_ms));
        let noted_at = self.noted_at.load(Ordering::Relaxed);
        if now_ms - noted_at < NOTE_INTERVAL_MS {
            return Ok(());
        }
        upstream::note_push(&self.shared.backend, now_ms).await?;
        self.noted_at.store(now_ms, Ordering::Relaxed);
        Ok(())
    }

    /// The time of the last push, if the feed counts as up because of it.
    pub async fn up_since(&self) -> StoreResult<Option<i64>> {
        let now_ms = self.shared.clock.now_ms();
        let pushed_at = upstream::pushed_at(&self.shared.backend).await?;
        Ok(pushed_at.filter(|at| now_ms - at < UP_MS + NOTE_INTERVAL_MS))
    }
}
