//! Removal from the index: datasets whose log was replaced, and unused projects.
//!
//! An index in memory holds only the projects in use, so its size does not follow the number of projects. Its follower
//! drops a project that had no request for half an hour. After the next request, the index reads the project's log
//! again, and the request waits until it is complete. An index on a disk keeps every log that it has followed, with its
//! position in memory, and forgets only the request.

use tantivy::index::SegmentMeta;

use super::{SearchError, SearchIndex, schema::Terms};
use crate::domain::{dataset::Dataset, window::MINUTE_MS};

/// Time without a request after which an index in memory drops a project.
const IDLE_TIMEOUT_MS: i64 = 30 * MINUTE_MS;

impl SearchIndex {
    pub fn follows(&self, dataset: &Dataset) -> bool {
        if matches!(dataset, Dataset::Alerts(_)) {
            // It has nothing to search.
            return false;
        }
        let is_project = matches!(dataset, Dataset::Project(_));
        self.folder.is_some() || !is_project || self.requests.lock().contains_key(&dataset.to_string())
    }

    /// Forgets the requests of projects without one in the last half hour, and returns those projects that an index in
    /// memory holds. A request since the last call counts as made at `now_ms`.
    pub fn unused(&self, now_ms: i64) -> Vec<Dataset> {
        let is_project = |name: &String| matches!(Dataset::parse(name), Some(Dataset::Project(_)));
        let mut requests = self.requests.lock();
        requests.retain(|name, last_request| {
            let last_request = *last_request.get_or_insert(now_ms);
            now_ms - last_request < IDLE_TIMEOUT_MS || !is_project(name)
        });
        let kept = requests.len();
        requests.shrink_to(2 * kept);
        if self.folder.is_some() {
            return Vec::new();
        }
        let committed = self.committed.borrow();
        let unused = committed.keys().filter(|name| is_project(name) && !requests.contains_key(*name));
        unused.filter_map(|name| Dataset::parse(name)).collect()
    }

    /// Forgets datasets, and starts to rewrite the segments that have become mostly empty: only that frees their
    /// memory. This blocks. After an error the index still holds the datasets, or is closed.
    pub fn drop_datasets(&self, datasets: &[Dataset]) -> Result<(), SearchError> {
        datasets.iter().try_for_each(|dataset| self.forget(dataset))?;
        self.commit()?;
        self.write(|writer| {
            let writer = writer.common()?.writer()?;
            let segments = writer.index().searchable_segment_metas()?;
            let mostly_empty = segments.iter().filter(|segment| segment.num_deleted_docs() > segment.num_docs());
            let mostly_empty: Vec<_> = mostly_empty.map(SegmentMeta::id).collect();
            if !mostly_empty.is_empty() {
                // The merge continues in a thread of the index. A failed merge leaves the segments as they are.
                drop(writer.merge(&mostly_empty));
            }
            Ok(())
        })
    }

    /// Forgets a dataset; its position is 0 after the next commit.
    pub fn forget(&self, dataset: &Dataset) -> Result<(), SearchError> {
        let terms = Terms::new(self.fields, dataset);
        self.write(|writer| writer.forget(&terms, dataset))
    }
}
