//! Marks the logs that this core appends to. If the core dies, another core finds its unfinished work by the marks. On
//! the embedded store the next start does, and writes lost rows again too.

use std::sync::{Arc, atomic::Ordering};

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

/// The mark of a writer on its log.
pub(super) struct UnfinishedMark {
    shared: Arc<Shared>,
    dataset: Dataset,
    /// The name in its row.
    holder: String,
    set_at: Option<i64>,
}

impl UnfinishedMark {
    pub(super) fn new(shared: Arc<Shared>, dataset: Dataset) -> Self {
        let mut holder = shared.replica.clone();
        if shared.backend.is_exclusive() {
            // While a writer carries out its last commands, another one may run already. Neither may remove the mark of
            // the other: on this store rows are durable some time after their append, and a crash could lose them.
            let number = shared.marks.fetch_add(1, Ordering::Relaxed);
            holder = format!("{holder}/{number}");
        }
        Self { shared, dataset, holder, set_at: None }
    }

    /// Writes the mark, unless a recent one exists. Call it before each append and again after it, before rows
    /// are written: another core removes a stale mark, and does not see an entry that is appended later.
    pub(super) async fn set(&mut self) -> StoreResult<()> {
        let at = self.shared.clock.now_ms();
        if self.set_at.is_some_and(|set_at| at - set_at < MAX_MARK_AGE_MS) {
            return Ok(());
        }
        let (dataset, replica) = (self.dataset.to_string(), self.holder.clone());
        unfinished::write(&self.shared.backend, &UnfinishedLog { dataset, replica, at }).await?;
        self.set_at = Some(at);
        Ok(())
    }

    pub(super) async fn renew(&mut self) -> StoreResult<()> {
        self.set_at = None;
        self.set().await
    }

    /// Removes the mark: the work of this writer on the log is done. If `all` work up to the head is done, this also
    /// removes the stale marks of others.
    pub(super) async fn clear(&mut self, all: bool) -> StoreResult<()> {
        let now_ms = self.shared.clock.now_ms();
        let mut rows = unfinished::list_of(&self.shared.backend, &self.dataset).await?;
        rows.retain(|row| row.replica == self.holder || all && row.at + STALE_MARK_AGE_MS < now_ms);
        if !rows.is_empty() {
            // A removed mark brings no lost rows back, so they must be durable first.
            self.shared.backend.sync().await?;
            // An error does not tell whether the mark is still there.
            self.set_at = None;
            unfinished::remove(&self.shared.backend, &rows).await?;
        }
        self.set_at = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::{ManualClock, NOON, core, memory};

    #[tokio::test]
    async fn a_writer_on_the_embedded_store_leaves_the_mark_of_another() {
        let clock = ManualClock::new();
        let core = core(memory(&clock), &clock, 1).await;
        let dataset = Dataset::of_project("two");
        let mark = || UnfinishedMark::new(Arc::clone(&core.shared), dataset.clone());
        let marked = async || unfinished::list_of(&core.shared.backend, &dataset).await.unwrap().len();
        let (mut ending, mut next, mut idle) = (mark(), mark(), mark());
        next.set().await.unwrap();
        ending.set().await.unwrap();
        idle.clear(true).await.unwrap();
        ending.clear(true).await.unwrap();
        assert_eq!(marked().await, 1);
        // A process that has ended left this one.
        clock.advance(STALE_MARK_AGE_MS + 1);
        idle.set().await.unwrap();
        idle.clear(true).await.unwrap();
        assert_eq!(marked().await, 0);
    }

    #[tokio::test]
    async fn a_mark_is_written_again_once_it_is_thirty_seconds_old() {
        let clock = ManualClock::new();
        let core = core(memory(&clock), &clock, 1).await;
        let dataset = Dataset::of_project("two");
        let mut mark = UnfinishedMark::new(Arc::clone(&core.shared), dataset.clone());
        let written_at = async || unfinished::list_of(&core.shared.backend, &dataset).await.unwrap()[0].at;
        mark.set().await.unwrap();
        for (later, at) in [(29_999, NOON), (1, NOON + 30_000)] {
            clock.advance(later);
            mark.set().await.unwrap();
            assert_eq!(written_at().await, at);
        }
        clock.advance(1);
        mark.renew().await.unwrap();
        assert_eq!(written_at().await, NOON + 30_001);
    }

    #[tokio::test]
    async fn only_a_writer_whose_whole_log_is_done_removes_the_mark_of_another_after_a_minute() {
        let clock = ManualClock::new();
        let core = core(memory(&clock), &clock, 1).await;
        let dataset = Dataset::of_project("two");
        let mark = || UnfinishedMark::new(Arc::clone(&core.shared), dataset.clone());
        let (mut ended, mut next) = (mark(), mark());
        ended.set().await.unwrap();
        for (later, all, left) in [(60_000, true, 1), (1, false, 1), (0, true, 0)] {
            clock.advance(later);
            next.clear(all).await.unwrap();
            assert_eq!(unfinished::list_of(&core.shared.backend, &dataset).await.unwrap().len(), left);
        }
    }
}
