//! Removes unused projects from memory, so memory follows the datasets in use, not all that were ever used. A removed
//! one comes back with its next use, which reads its position from the store.

use std::{mem::take, sync::Arc};

use super::{Datasets, OpenDataset};
use crate::domain::dataset::Dataset;

impl OpenDataset {
    /// True for the datasets that everybody uses, and while somebody follows or reads the position, writes, or deletes
    /// surplus theses. The fan-out beside a writer follows the position, and ends after the writer. A dataset whose
    /// last deleted thesis is known stays, since the next deletion would read past all deleted rows without it.
    fn is_in_use(&self, dataset: &Dataset) -> bool {
        !matches!(dataset, Dataset::Project(_))
            || self.writer.as_ref().is_some_and(|writer| !writer.has_ended())
            || self.position.receiver_count() > 0
            || Arc::strong_count(&self.shared_reads) > 1
            || Arc::strong_count(&self.last_deleted) > 1
            || self.last_deleted.try_lock().is_ok_and(|last_deleted| last_deleted.is_some())
    }
}

impl Datasets {
    /// Removes the projects that were not used since the last call, unless `is_needed` is true at their position.
    pub fn close_unused(&self, is_needed: impl Fn(&Dataset, u64) -> bool) {
        let mut open = self.open.lock();
        open.retain(|dataset, open| {
            take(&mut open.is_used) || open.is_in_use(dataset) || is_needed(dataset, *open.position.borrow())
        });
        let kept = open.len();
        open.shrink_to(2 * kept);
    }
}
