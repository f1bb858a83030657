//! Turns of the writers that append to one log at once. A writer that loses must first take over the winner's entries
//! and rows, so it would lose again and again. Therefore the loser says that it lost, and the others let it go first,
//! once. This is only a courtesy: a failure in it fails no append.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use crate::{domain::id, shared::Shared, tables::log_losers};

/// Longest time that a log counts as shared after another writer's append.
const SHARED_MS: i64 = 2_000;
/// Longest time that another writer is let go first, and that any other courtesy takes.
pub(super) const GIVE_WAY: Duration = Duration::from_millis(200);
/// How often this writer looks whether the other went.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(5);

/// One writer's view of the others of its log.
pub(super) struct WriterTurns {
    shared: Arc<Shared>,
    name: String,
    /// The id of this writer.
    writer: String,
    /// Number of times it told that it lost, or that it no longer wants the turn.
    told: i64,
    /// Whether it waits for a turn.
    waits: bool,
    /// When another writer was last seen to append or to wait for a turn.
    others_at: i64,
    /// Others have appended up to this head.
    others_head: u64,
    /// Writers that lost at this head or before were let go first.
    given: u64,
}

impl WriterTurns {
    pub(super) fn new(shared: Arc<Shared>, name: String) -> Self {
        let writer = id::random("wr_", shared.ids.as_ref());
        let others_at = i64::MIN / 2;
        Self { shared, name, writer, told: 0, waits: false, others_at, others_head: 0, given: 0 }
    }

    /// Notes that others append at this time.
    pub(super) fn share(&mut self) {
        self.others_at = self.shared.clock.now_ms();
    }

    /// Whether others append at this time.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.clock.now_ms() - self.others_at < SHARED_MS
    }

    /// Notes that others have appended up to `head`.
    pub(super) fn followed(&mut self, head: u64) {
        self.others_head = head;
    }

    /// Tells the others that this writer lost to them at `head`.
    pub(super) async fn lost(&mut self, head: u64) {
        self.waits = true;
        self.tell(Some(head)).await;
    }

    /// Gives up its turn: there is nothing to append after all.
    pub(super) async fn needs_none(&mut self) {
        if self.waits {
            self.waits = false;
            self.tell(None).await;
        }
    }

    /// Notes that this writer has appended, which the others see by themselves.
    pub(super) fn had_one(&mut self) {
        self.waits = false;
    }

    async fn tell(&mut self, head: Option<u64>) {
        if self.shared.backend.is_exclusive() {
            return;
        }
        self.told += 1;
        let telling = log_losers::tell(&self.shared.backend, &self.name, &self.writer, head, self.told);
        if let Ok(Err(error)) = timeout(GIVE_WAY, telling).await {
            tracing::debug!(dataset = self.name, %error, "a turn was not asked for");
        }
    }

    /// Looks whether others append that were not seen because they always lost.
    pub(super) async fn look(&mut self) {
        if self.is_anothers().await {
            self.share();
        }
    }

    /// Whether another writer lost to this one and has not appended since.
    pub(super) async fn is_anothers(&self) -> bool {
        let losers = timeout(GIVE_WAY, log_losers::losers(&self.shared.backend, &self.name)).await;
        let is_owed =
            |(writer, head): &(String, u64)| *writer != self.writer && *head > self.given && *head >= self.others_head;
        matches!(losers, Ok(Ok(losers)) if losers.iter().any(is_owed))
    }

    /// Notes that others were let go first at `head`.
    pub(super) fn give(&mut self, head: u64) {
        self.given = head;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ManualClock, core, shared_memory};

    #[tokio::test]
    async fn a_turn_is_owed_once_to_another_that_has_not_appended_since() {
        let clock = ManualClock::new();
        let core = core(shared_memory(&clock), &clock, 1).await;
        let new = || WriterTurns::new(Arc::clone(&core.shared), "project/turns".to_owned());
        let (mut own, mut other) = (new(), new());
        assert!(!own.is_anothers().await);
        other.lost(3).await;
        assert!(own.is_anothers().await);
        assert!(!other.is_anothers().await, "it is its own");

        own.followed(3);
        assert!(own.is_anothers().await, "it lost at what it has followed");
        own.followed(4);
        assert!(!own.is_anothers().await, "it has appended");

        other.lost(6).await;
        assert!(own.is_anothers().await);
        own.give(6);
        assert!(!own.is_anothers().await, "it was let go first");

        other.lost(8).await;
        assert!(own.is_anothers().await, "it lost again");
        other.needs_none().await;
        assert!(!own.is_anothers().await);
        other.lost(9).await;
        assert!(own.is_anothers().await);

        assert!(!own.is_shared());
        own.look().await;
        assert!(own.is_shared());
        clock.advance(SHARED_MS);
        assert!(!own.is_shared());
    }
}
