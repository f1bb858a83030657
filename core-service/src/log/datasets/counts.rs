//! The counts of a token's last day, for a bounded number of rows: the owner of a log keeps in memory what is too much to
//! read for each answer.

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
    store::Consistency,
};

/// Most theses on a token in one dataset that are read for one answer; few in tests, so that tests count in memory too.
const MAX_READ: usize = if cfg!(test) { 4 } else { 1_000 };
/// Longest wait until the writer here has taken its log in up to the head.
const FOLLOWED: Duration = Duration::from_millis(250);
/// Time that it has for entries of its own. It looks for those of others only when it is told to.
const OWN: Duration = Duration::from_millis(50);

impl Datasets {
    /// Counts the theses on a token at `at` that are at most `span` milliseconds old (up to a day), over all datasets of a
    /// view together. Counts of more than `span` may cover less than they say.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn counts(self: &Arc<Self>, view: &View, token: &str, at: i64, span: i64) -> Result<Counts> {
        let theses = &self.shared.theses;
        if self.shared.backend.is_exclusive() {
            return Ok(theses.counts(view, token, at, span).await?);
        }
        if let Some(counts) = theses.counts_of_few(view, token, at, span, MAX_READ).await? {
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

    /// Counts the theses on a token of the last day at `at`, over the datasets that this one's events count, by the memory
    /// of the writer here. None when the writer does not come to the log's head in time.
    ///
    /// # Errors
    /// Fails when the store does not answer.
    pub async fn count_here(self: &Arc<Self>, dataset: &Dataset, token: &str, at: i64) -> Result<Option<Counts>> {
        let writer = self.writer(dataset);
        let mut followed = writer.followed();
        let known = *followed.borrow();
        // A writer that has just started has followed nothing yet.
        let known = if known > 0 { known } else { self.refresh(dataset).await? };
        let head = self.shared.log.head(&dataset.to_string(), known, Consistency::Quorum).await?;
        // Not the projected position: that moves with the entries of others too, which the writer may not know yet.
        let is_there = async {
            if timeout(OWN, followed.wait_for(|followed| *followed >= head)).await.is_err() {
                writer.look_again();
            }
            followed.wait_for(|followed| *followed >= head).await.is_ok()
        };
        if !timeout(FOLLOWED, is_there).await.unwrap_or(false) {
            return Ok(None);
        }
        let (theses, view, token) = (writer.theses().clone(), dataset.counted_with(), token.to_owned());
        // It goes on without its caller: the next one finds in memory what it reads.
        let counting = tokio::spawn(async move { theses.counts(&view, &token, at, DAY_MS).await });
        Ok(Some(counting.await.map_err(Error::internal)??))
    }
}
