//! Deletes the oldest theses of a dataset that has more than its limit, as an upstream would.
//!
//! Each new thesis beyond the limit starts a task that deletes at most a page. The writer checks the limit for each
//! deletion at the head of the log, so several cores together never delete one too many.

use std::sync::Arc;

use futures::future::try_join_all;
use tokio::sync::Mutex;

use super::Datasets;
use crate::{
    domain::{
        dataset::Dataset,
        entry::{Kind, SequencedEntry},
    },
    error::Result,
    log::writer::Command,
    tables::{index_scope::IndexScope, theses::IndexSlice},
};

/// Maximum number of theses that are deleted for one new thesis. After a plan got a lower limit, several new theses
/// reach it.
const MAX_DELETIONS: usize = 50;

/// Time and id of the last deleted thesis: all older ones are deleted too. None when that is unknown. Reading past many
/// deleted rows is expensive on a cluster, so the next page begins here. The holder of the lock deletes.
pub(super) type LastDeleted = Arc<Mutex<Option<(i64, String)>>>;

impl Datasets {
    /// Starts a task that deletes the oldest theses, if the dataset has more than `limit` with this new entry.
    pub(super) fn delete_surplus_after(self: &Arc<Self>, dataset: &Dataset, limit: i64, written: &SequencedEntry) {
        let Some(Kind::ThesisCreated(created)) = &written.entry.kind else { return };
        if created.totals.in_dataset.is_none_or(|all| all.theses <= limit) {
            return;
        }
        let (datasets, dataset, newest) = (Arc::clone(self), dataset.clone(), created.thesis.id.clone());
        self.tasks.spawn(async move {
            let deleting = datasets.delete_surplus(&dataset, limit, &newest);
            if let Some(Err(error)) = datasets.stop.run_until_cancelled(deleting).await {
                tracing::warn!(%dataset, %error, "deleting old test theses failed, trying again after the next one");
            }
        });
    }

    /// Deletes the oldest theses beyond `limit`, at most a page, and never the newest one.
    async fn delete_surplus(self: &Arc<Self>, dataset: &Dataset, limit: i64, newest: &str) -> Result<()> {
        let turn = self.with(dataset, |open| Arc::clone(&open.last_deleted));
        let mut last_deleted = turn.lock().await;
        let surplus = self.shared.theses.dataset_totals(&dataset.to_string()).await?.theses - limit;
        let page = usize::try_from(surplus).unwrap_or(0).min(MAX_DELETIONS);
        if page == 0 {
            return Ok(());
        }
        // If this fails, the next page begins at the oldest thesis.
        let oldest = IndexSlice { from: 0, to: i64::MAX, after: last_deleted.take(), descending: false };
        let mut rows = self.shared.theses.slice(dataset, &IndexScope::All, &oldest, page).await?;
        rows.retain(|row| row.id != newest);
        let deletions = rows.iter().map(|row| self.run(dataset, Command::DeleteSurplus { id: row.id.clone(), limit }));
        let deleted = try_join_all(deletions).await?;
        // The next page must also find a thesis that was kept, and one that is older than this page.
        let are_gone = deleted.len() == page && deleted.iter().all(|written| written.applied);
        *last_deleted = rows.pop().filter(|_| are_gone).map(|row| (row.created_at, row.id));
        Ok(())
    }
}
