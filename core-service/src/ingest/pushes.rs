//! Observations that others push by `IngestService`: a feed too, which is up while it is used.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use thesis_net::metric::seconds;

use crate::{domain::window::MINUTE_MS, figures::PUSHED, shared::Shared, store::StoreResult, tables::upstream};

/// How often a push is noted for the other cores, in milliseconds.
const NOTED_EVERY_MS: i64 = 5_000;
/// Longest time since a push in which the feed counts as up, in milliseconds (decided in the contract).
const UP_FOR_MS: i64 = MINUTE_MS;

/// When observations were last pushed.
pub struct Pushes {
    shared: Arc<Shared>,
    noted_at: AtomicI64,
}

impl Pushes {
    /// Nothing was pushed here yet.
    #[must_use]
    pub fn new(shared: Arc<Shared>) -> Self {
        Self { shared, noted_at: AtomicI64::new(0) }
    }

    /// Notes a push into `live`.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn note(&self) -> StoreResult<()> {
        let now_ms = self.shared.clock.now_ms();
        PUSHED.one().set(seconds(now_ms));
        let noted_at = self.noted_at.load(Ordering::Relaxed);
        if now_ms - noted_at < NOTED_EVERY_MS {
            return Ok(());
        }
        upstream::note_push(&self.shared.backend, now_ms).await?;
        self.noted_at.store(now_ms, Ordering::Relaxed);
        Ok(())
    }

    /// When observations were last pushed, if that makes the feed count as up.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn up_since(&self) -> StoreResult<Option<i64>> {
        let now_ms = self.shared.clock.now_ms();
        let pushed_at = upstream::pushed_at(&self.shared.backend).await?;
        Ok(pushed_at.filter(|at| now_ms - at < UP_FOR_MS + NOTED_EVERY_MS))
    }
}
