//! Says which log this core appends to, so that what it does not live to finish is found.

use std::sync::Arc;

use crate::{
    domain::dataset::Dataset,
    shared::Shared,
    store::StoreResult,
    tables::unfinished::{self, Unfinished},
};

/// Longest age of what was said at the beginning of an append, in milliseconds.
const SAID_FOR_MS: i64 = 30_000;
/// Least age of a row, in milliseconds, that no append under way has begun by.
pub(super) const OLD_MS: i64 = 2 * SAID_FOR_MS;

/// What this core says of one log.
pub(super) struct Beginnings {
    shared: Arc<Shared>,
    dataset: Dataset,
    said_at: Option<i64>,
}

impl Beginnings {
    pub(super) fn new(shared: Arc<Shared>, dataset: Dataset) -> Self {
        Self { shared, dataset, said_at: None }
    }

    /// Writes that this core appends to the log, unless it did so lately. It is called before each append, and again after
    /// it, before rows are made: others remove a row that is old by then, and do not see an entry that comes later.
    pub(super) async fn begin(&mut self) -> StoreResult<()> {
        let at = self.shared.clock.now_ms();
        if self.said_at.is_some_and(|said_at| at - said_at < SAID_FOR_MS) {
            return Ok(());
        }
        let (dataset, replica) = (self.dataset.to_string(), self.shared.replica.clone());
        unfinished::note(&self.shared.backend, &Unfinished { dataset, replica, at }).await?;
        self.said_at = Some(at);
        Ok(())
    }

    /// Writes again that this core appends to the log.
    pub(super) async fn renew(&mut self) -> StoreResult<()> {
        self.said_at = None;
        self.begin().await
    }

    /// Takes back what this core said of the log: its part is done. If all is done up to the log's head, so is that of
    /// others who said so long ago.
    pub(super) async fn end(&mut self, all: bool) -> StoreResult<()> {
        let now_ms = self.shared.clock.now_ms();
        let mut rows = unfinished::of(&self.shared.backend, &self.dataset).await?;
        rows.retain(|row| row.replica == self.shared.replica || all && row.at + OLD_MS < now_ms);
        if !rows.is_empty() {
            unfinished::remove(&self.shared.backend, &rows).await?;
        }
        self.said_at = None;
        Ok(())
    }
}
