//! Turns of the writers that append to one log at once. A race is lost by whoever has to make good what it lost by, to the
//! writer that has just made its own rows, and so again and again. Therefore the loser says that it lost, and the others
//! let it go first, once.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    domain::id,
    key,
    service::core::Shared,
    store::{Change, Row, Scan, StoreResult, tables},
};

/// For how long a log counts as shared after another writer's append.
const SHARED_MS: i64 = 2_000;
/// How long another writer is let go first.
pub(super) const GIVE_WAY: Duration = Duration::from_millis(200);
/// Seconds for which it is kept that a writer lost.
const KEPT: u32 = 10;
/// Writers that are looked for: every core has one.
const WRITERS: usize = 100;

/// One writer's view of the others of its log.
pub(super) struct Turns {
    shared: Arc<Shared>,
    name: String,
    /// This writer.
    writer: String,
    /// When another writer was last seen to append or to lose, and up to where one has appended.
    others_at: i64,
    others_head: u64,
    /// Who lost at this head or before was let go first.
    given: u64,
}

impl Turns {
    pub(super) fn new(shared: Arc<Shared>, name: String) -> Self {
        let writer = id::random("wr_", shared.ids.as_ref());
        Self { shared, name, writer, others_at: i64::MIN / 2, others_head: 0, given: 0 }
    }

    /// Others have appended up to `head`.
    pub(super) fn saw(&mut self, head: u64) {
        (self.others_at, self.others_head) = (self.shared.clock.now_ms(), head);
    }

    /// Whether others append at this time.
    pub(super) fn is_shared(&self) -> bool {
        self.shared.clock.now_ms() - self.others_at < SHARED_MS
    }

    /// Tells the others that this writer lost to them at `head`.
    pub(super) async fn lost(&self, head: u64) -> StoreResult<()> {
        let change = Change {
            table: &tables::LOG_LOSER,
            key: key![&self.name, &self.writer],
            version: head.cast_signed(),
            body: Some(Bytes::new()),
            ttl: Some(KEPT),
        };
        self.shared.backend.apply(vec![change]).await
    }

    /// Looks whether others append, of which nothing was seen because they always lost.
    pub(super) async fn look(&mut self) -> StoreResult<()> {
        if self.is_anothers().await? {
            self.others_at = self.shared.clock.now_ms();
        }
        Ok(())
    }

    /// Whether another writer lost to this one and has not appended since.
    pub(super) async fn is_anothers(&self) -> StoreResult<bool> {
        let losers = self.shared.backend.scan(&Scan::all(&tables::LOG_LOSER, key![&self.name], WRITERS)).await?;
        let is_other = |row: &Row| row.clustering.first().is_some_and(|writer| writer.text() != self.writer);
        let is_owed = |head: u64| head > self.given && head >= self.others_head;
        Ok(losers.iter().any(|row| is_other(row) && is_owed(row.version.unsigned_abs())))
    }

    /// This writer lets others go first, at `head`.
    pub(super) fn give(&mut self, head: u64) {
        self.given = head;
    }
}
