//! The counts of a token's last day. A count reads a bounded number of rows. If there are more theses, the owner of the
//! log counts them in memory.

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::Datasets;
use crate::{
    domain::{
        dataset::{Dataset, View},
        derivation::Counts,
        window::DAY_MS,
    },
    error::{Error, Result},
    tables::theses::RowReader,
};

/// Maximum number of theses on a token in one dataset that one request reads. It is low in tests, so tests count in
/// memory too.
const MAX_READ: usize = if cfg!(test) { 4 } else { 1_000 };
/// The writer here must follow the projected entries within this time.
const FOLLOW_TIMEOUT: Duration = Duration::from_millis(250);
/// After this time, the writer also follows the entries of other writers: its own entries are applied within it.
const OWN_ENTRIES_TIMEOUT: Duration = Duration::from_millis(50);

impl Datasets {
    /// Counts the theses on a token at `at` that are at most `span` milliseconds old (up to a day), over all datasets
    /// of a view together. Counts of more than `span` may cover less than they say. The reader is of the view.
    pub async fn counts(
        self: &Arc<Self>,
        reader: &RowReader<'_>,
        view: &View,
        token: &str,
        at: i64,
        span: i64,
    ) -> Result<Counts> {
        let theses = &self.shared.theses;
        if self.shared.backend.is_exclusive() {
            return Ok(theses.counts(view, token, at, span).await?);
        }
        if let Some(counts) = reader.counts_of_few(view, token, at, span, MAX_READ).await? {
            return Ok(counts);
        }
        if let Some(dataset) = view.datasets().iter().find(|dataset| dataset.counted_with() == *view) {
            if let Some(counts) = self.peers.count(&dataset.to_string(), token, at).await {
                return Ok(counts);
            }
            if let Some(counts) = self.count_here(dataset, token, at).await? {
                return Ok(counts);
            }
        }
        Ok(theses.counts(view, token, at, span).await?)
    }

    /// Counts the theses on a token of the last day at `at`, over the datasets that this one's events count, in the
    /// memory of the writer here. None when the writer does not follow the projected entries in time.
    pub async fn count_here(self: &Arc<Self>, dataset: &Dataset, token: &str, at: i64) -> Result<Option<Counts>> {
        let writer = self.writer(dataset);
        let mut followed = writer.followed();
        // Nobody knows of later entries yet. The head of a busy log is nearly always ahead of its rows.
        let projected = self.refresh(dataset).await?;
        // Some of these entries may be another writer's, which this one does not know yet.
        let has_followed = async {
            if timeout(OWN_ENTRIES_TIMEOUT, followed.wait_for(|followed| *followed >= projected)).await.is_err() {
                writer.request_catch_up();
            }
            followed.wait_for(|followed| *followed >= projected).await.is_ok()
        };
        if !timeout(FOLLOW_TIMEOUT, has_followed).await.unwrap_or(false) {
            return Ok(None);
        }
        let (theses, view, token) = (writer.theses().clone(), dataset.counted_with(), token.to_owned());
        // The count continues if the caller gives up: the next caller then finds the theses in memory.
        let counting = tokio::spawn(async move { theses.counts(&view, &token, at, DAY_MS).await });
        Ok(Some(counting.await.map_err(Error::internal)??))
    }
}
