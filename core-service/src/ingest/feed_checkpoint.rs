//! The checkpoint of the feed. The leading core has it in memory and keeps a copy in the store.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::upstream::{PendingChanges, Upstream};
use crate::{
    store::StoreResult,
    tables::upstream::{FeedState, read_feed_state, write_feed_state},
};

/// Interval between two writes of an unchanged checkpoint, so that other cores know that the feed is up.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// The position up to which all frames of the feed are applied.
pub(super) struct FeedCheckpoint {
    upstream: Arc<Upstream>,
    /// The row; `pending_since` is the value of the last write.
    pub(super) feed: FeedState,
    version: i64,
    kept_at: Option<Instant>,
    moved: bool,
    /// True until the first try of a first start to open the feed.
    is_first: bool,
}

impl FeedCheckpoint {
    /// Reads the checkpoint, and with it the time of the first pending change. A first start stores its checkpoint
    /// before it opens the feed: so a later start knows the time since which it must have every change.
    pub(super) async fn read(upstream: &Arc<Upstream>) -> StoreResult<Self> {
        let now_ms = upstream.now_ms();
        let kept = read_feed_state(&upstream.shared.backend).await?;
        let is_first = kept.is_none();
        let (version, feed) = kept.unwrap_or_else(|| (0, FeedState { known_until: now_ms, ..FeedState::default() }));
        *upstream.pending.lock() = PendingChanges { running: None, waiting: feed.pending_since };
        let mut checkpoint =
            Self { upstream: Arc::clone(upstream), feed, version, kept_at: None, moved: false, is_first };
        if is_first {
            let backfill = upstream.settings.backfill;
            if !backfill.is_zero() {
                let back = i64::try_from(backfill.as_millis()).unwrap_or(i64::MAX);
                upstream.add_pending(now_ms.saturating_sub(back));
            }
            checkpoint.write().await?;
            // A start that finds no checkpoint takes itself for the first.
            upstream.shared.backend.sync().await?;
        }
        Ok(checkpoint)
    }

    /// Returns true once: for the first try of a first start to open the feed.
    pub(super) const fn take_first(&mut self) -> bool {
        std::mem::replace(&mut self.is_first, false)
    }

    pub(super) fn open(&mut self, now_ms: i64) {
        (self.feed.received_at, self.feed.connected, self.moved) = (now_ms, true, true);
    }

    /// Notes that all frames up to a position are applied, and with them all changes until a time of the upstream.
    pub(super) fn advance_to(&mut self, position: Option<String>, until: i64) {
        self.feed.position = position.or_else(|| self.feed.position.take());
        self.feed.known_until = self.feed.known_until.max(until);
        self.moved = true;
    }

    /// Stores the checkpoint if it or the pending changes differ from the last write, or if [`KEEP_ALIVE_INTERVAL`] has
    /// passed.
    pub(super) async fn keep_if_due(&mut self) {
        let pending = self.upstream.pending.lock().since();
        if self.moved
            || pending != self.feed.pending_since
            || self.kept_at.is_none_or(|at| at.elapsed() > KEEP_ALIVE_INTERVAL)
        {
            self.try_write().await;
        }
    }

    /// Stores the checkpoint and the loss of the connection.
    pub(super) async fn leave(&mut self) {
        self.feed.connected = false;
        self.try_write().await;
    }

    async fn try_write(&mut self) {
        if let Err(error) = self.write().await {
            tracing::debug!(%error, "keeping the place in the feed failed, trying again");
        }
    }

    async fn write(&mut self) -> StoreResult<()> {
        let pending_since = self.upstream.pending.lock().since();
        let feed = FeedState { pending_since, ..self.feed.clone() };
        // The version is higher than the last leader's, even with another clock, and than one of an earlier try that
        // may still arrive.
        self.version = self.upstream.now_ms().max(self.version + 1);
        write_feed_state(&self.upstream.shared.backend, &feed, self.version).await?;
        (self.feed, self.kept_at, self.moved) = (feed, Some(Instant::now()), false);
        Ok(())
    }
}
