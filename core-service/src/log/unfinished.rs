//! Marks the logs that this core appends to. If the core dies, another core finds its unfinished work by the marks.

use std::sync::Arc;

use crate::{
    domain::dataset::Dataset,
    shared::Shared,
    store::StoreResult,
    tables::unfinished::{self, UnfinishedLog},
};

/// Maximum age of the mark at the beginning of an append, in milliseconds.
const MAX_MARK_AGE_MS: i64 = 30_000;
/// Age of a mark in milliseconds from which it belongs to no running append.
pub(super) const STALE_MARK_AGE_MS: i64 = 2 * MAX_MARK_AGE_MS;

/// The mark of this core on one log.
pub(super) struct UnfinishedMark {
    shared: Arc<Shared>,
    dataset: Dataset,
    set_at: Option<i64>,
}

impl UnfinishedMark {
    pub(super) fn new(shared: Arc<Shared>, dataset: Dataset) -> Self {
        Self { shared, dataset, set_at: None }
    }

    /// Writes the mark, unless a recent one exists. Call it before each append and again after it, before rows
    /// are written: another core removes a stale mark, and does not see an entry that is appended later.
    pub(super) async fn set(&mut self) -> StoreResult<()> {
        let at = self.shared.clock.now_ms();
        if self.set_at.is_some_and(|set_at| at - set_at < MAX_MARK_AGE_MS) {
            return Ok(());
        }
        let (dataset, replica) = (self.dataset.to_string(), self.shared.replica.clone());
        unfinished::write(&self.shared.backend, &UnfinishedLog { dataset, replica, at }).await?;
        self.set_at = Some(at);
        Ok(())
    }

    pub(super) async fn renew(&mut self) -> StoreResult<()> {
        self.set_at = None;
        self.set().await
    }

    /// Removes the mark: the work of this core on the log is done. If `all` work up to the head is done, this also
    /// removes the stale marks of other cores.
    pub(super) async fn clear(&mut self, all: bool) -> StoreResult<()> {
        let now_ms = self.shared.clock.now_ms();
        let mut rows = unfinished::list_of(&self.shared.backend, &self.dataset).await?;
        rows.retain(|row| row.replica == self.shared.replica || all && row.at + STALE_MARK_AGE_MS < now_ms);
        if !rows.is_empty() {
            // A removed mark brings no lost rows back, so they must be durable first.
            self.shared.backend.sync().await?;
            unfinished::remove(&self.shared.backend, &rows).await?;
        }
        self.set_at = None;
        Ok(())
    }
}
