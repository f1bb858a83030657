//! Closes times of logs: what figures as of a time count must never change.

use std::sync::Arc;

use super::Datasets;
use crate::{
    domain::dataset::Dataset,
    error::Result,
    log::writer::Command,
    store::{StoreError, StoreResult},
    tables::log::outline,
};

impl Datasets {
    /// Waits until the rows have every entry of a dataset's log of `at` or earlier, those of appends under way too. No
    /// such entry is added later. Returns the projected position.
    pub async fn close_time(self: &Arc<Self>, dataset: &Dataset, at: i64) -> Result<u64> {
        let projected = self.refresh(dataset).await?;
        if self.is_younger(dataset, projected, at).await? {
            return Ok(projected);
        }
        // An append under way has the time at which it began. It fails once the log has another entry. So the owner
        // adds that entry: elsewhere each such request would make an append of the owner fail.
        if !self.peers.close_time(dataset.name(), at).await {
            self.close_time_here(dataset, at).await?;
        }
        let projected = self.refresh(dataset).await?;
        if self.is_younger(dataset, projected, at).await? {
            return Ok(projected);
        }
        Err(StoreError::Unavailable(format!("log {dataset} was not projected in time")).into())
    }

    /// Makes sure, through the writer here, that a log has an entry younger than `at`.
    pub async fn close_time_here(self: &Arc<Self>, dataset: &Dataset, at: i64) -> Result<()> {
        self.run(dataset, Command::CloseTime { at }).await.map(drop)
    }

    /// Returns whether an entry is younger than `at`. Then all later ones are, too.
    async fn is_younger(&self, dataset: &Dataset, seq: u64, at: i64) -> StoreResult<bool> {
        let Some(body) = self.shared.log.get(dataset.name(), seq).await? else { return Ok(false) };
        Ok(outline(&body)?.created_at > at)
    }
}
