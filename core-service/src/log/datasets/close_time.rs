//! Closes times of logs. A closed time gets no more entries, so figures as of that time never change.

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
    /// Closes a time of a dataset's log, and waits until the rows have every entry of `at` or earlier. This includes
    /// entries whose appends are in progress. Later appends are younger than `at`. Returns the projected position.
    pub async fn close_time(self: &Arc<Self>, dataset: &Dataset, at: i64) -> Result<u64> {
        let projected = self.refresh(dataset).await?;
        if self.is_younger(dataset, projected, at).await? {
            return Ok(projected);
        }
        // An append in progress has the time at which it began, and fails if another core appends first. So the owner
        // appends the entry that closes the time. If other cores did, the appends of the owner would fail.
        if !self.peers.close_time(dataset.name(), at).await {
            self.close_time_here(dataset, at).await?;
        }
        let projected = self.refresh(dataset).await?;
        if self.is_younger(dataset, projected, at).await? {
            return Ok(projected);
        }
        Err(StoreError::Unavailable(format!("log {dataset} was not projected in time")).into())
    }

    /// Closes a time with the writer of this core: makes sure that the log has an entry younger than `at`.
    pub async fn close_time_here(self: &Arc<Self>, dataset: &Dataset, at: i64) -> Result<()> {
        self.run(dataset, Command::CloseTime { at }).await.map(drop)
    }

    /// Returns whether an entry is younger than `at`. If it is, all later entries are too.
    async fn is_younger(&self, dataset: &Dataset, seq: u64, at: i64) -> StoreResult<bool> {
        let Some(body) = self.shared.log.get(dataset.name(), seq).await? else { return Ok(false) };
        Ok(outline(&body)?.created_at > at)
    }
}
