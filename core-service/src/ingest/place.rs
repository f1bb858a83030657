//! The place in the feed. The core that leads has it in memory and keeps it in the store.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::upstream::{Owed, Upstream};
use crate::{
    store::StoreResult,
    tables::upstream::{FeedPlace, keep_place, place},
};

/// Interval in which a place that does not move is kept, so that other cores know that the feed is up.
const SIGN_EVERY: Duration = Duration::from_secs(5);

/// The place in the feed.
pub(super) struct Place {
    upstream: Arc<Upstream>,
    /// The row; `owed_since` is the value that was kept last.
    pub(super) feed: FeedPlace,
    /// Version of the last write.
    version: i64,
    kept_at: Option<Instant>,
    moved: bool,
    /// True until the first try of a first start to open the feed.
    is_first: bool,
}

impl Place {
    /// Reads the place, and with it the time since which changes have to be looked up. A first start keeps its place
    /// before it opens the feed: a later start then knows since when it must have every change.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(super) async fn read(upstream: &Arc<Upstream>) -> StoreResult<Self> {
        let now_ms = upstream.now_ms();
        let kept = place(&upstream.shared.backend).await?;
        let is_first = kept.is_none();
        let (feed, version) = kept.unwrap_or_else(|| (FeedPlace { known_until: now_ms, ..FeedPlace::default() }, 0));
        *upstream.owed.lock() = Owed { paying: None, waiting: feed.owed_since };
        let mut place = Self { upstream: Arc::clone(upstream), feed, version, kept_at: None, moved: false, is_first };
        if is_first {
            let backfill = upstream.settings.backfill;
            if !backfill.is_zero() {
                let back = i64::try_from(backfill.as_millis()).unwrap_or(i64::MAX);
                upstream.owe(now_ms.saturating_sub(back));
            }
            place.write().await?;
            // A start that finds no place takes itself for the first.
            upstream.shared.backend.sync().await?;
        }
        Ok(place)
    }

    /// Tells whether this is the first try of a first start to open the feed.
    pub(super) const fn take_first(&mut self) -> bool {
        std::mem::replace(&mut self.is_first, false)
    }

    /// Notes that the feed is open.
    pub(super) fn open(&mut self, now_ms: i64) {
        (self.feed.heard_at, self.feed.connected, self.moved) = (now_ms, true, true);
    }

    /// Notes that all frames up to a position are applied, and with them all changes until a time of the upstream.
    pub(super) fn move_to(&mut self, position: Option<String>, until: i64) {
        self.feed.position = position.or_else(|| self.feed.position.take());
        self.feed.known_until = self.feed.known_until.max(until);
        self.moved = true;
    }

    /// Keeps the place if it moved, if the changes to look up are others, or if [`SIGN_EVERY`] has passed.
    pub(super) async fn keep_if_due(&mut self) {
        let owed = self.upstream.owed.lock().since();
        if self.moved || owed != self.feed.owed_since || self.kept_at.is_none_or(|at| at.elapsed() > SIGN_EVERY) {
            self.keep().await;
        }
    }

    /// Keeps the place without a connection.
    pub(super) async fn leave(&mut self) {
        self.feed.connected = false;
        self.keep().await;
    }

    async fn keep(&mut self) {
        if let Err(error) = self.write().await {
            tracing::debug!(%error, "keeping the place in the feed failed, trying again");
        }
    }

    async fn write(&mut self) -> StoreResult<()> {
        let owed_since = self.upstream.owed.lock().since();
        let feed = FeedPlace { owed_since, ..self.feed.clone() };
        // Higher than the last leader's version, whatever its clock said, and than an earlier try that may still arrive.
        self.version = self.upstream.now_ms().max(self.version + 1);
        keep_place(&self.upstream.shared.backend, &feed, self.version).await?;
        (self.feed, self.kept_at, self.moved) = (feed, Some(Instant::now()), false);
        Ok(())
    }
}
