//! Removes unused projects from memory, so memory follows the datasets in use, not all that were ever used. A removed
//! one comes back with its next use, which reads its position from the store.

use std::{mem::take, sync::Arc};

use super::{Datasets, OpenDataset};
use crate::domain::{dataset::Dataset, window::HOUR_MS};

/// Time without a use after which a project leaves memory although its last deleted thesis is known. Its next deletion
/// reads past all rows that deletions left in the oldest bucket.
const LAST_DELETED_KEPT_MS: i64 = HOUR_MS;

impl OpenDataset {
    /// True for the datasets that everybody uses, and while somebody follows or reads the position, writes, or deletes
    /// surplus theses. The fan-out beside a writer follows the position, and ends after the writer.
    fn is_in_use(&self, dataset: &Dataset) -> bool {
        dataset.is_shared()
            || self.writer.as_ref().is_some_and(|writer| !writer.has_ended())
            || self.position.receiver_count() > 0
            || Arc::strong_count(&self.shared_reads) > 1
            || Arc::strong_count(&self.last_deleted) > 1
    }

    fn knows_last_deleted(&self) -> bool {
        self.last_deleted.try_lock().is_ok_and(|last_deleted| last_deleted.is_some())
    }
}

impl Datasets {
    /// Removes the projects that are not in use and were not used since the last call, unless `is_needed` is true at
    /// their position.
    pub fn close_unused(&self, now_ms: i64, is_needed: impl Fn(&Dataset, u64) -> bool) {
        let mut open = self.open.lock();
        open.retain(|dataset, open| {
            if take(&mut open.is_used) || open.is_in_use(dataset) {
                open.unused_since = None;
                return true;
            }
            let unused_since = *open.unused_since.get_or_insert(now_ms);
            now_ms - unused_since < LAST_DELETED_KEPT_MS && open.knows_last_deleted()
                || is_needed(dataset, *open.position.borrow())
        });
        let kept = open.len();
        open.shrink_to(2 * kept);
    }
}
