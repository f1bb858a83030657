//! The index's position in each log, and the complete datasets. A dataset is complete once the index holds all entries
//! that its log had at the first request. Before that, a partial result would look like a complete one.

use super::{LogMark, Marks, SearchIndex};
use crate::domain::dataset::Dataset;

impl SearchIndex {
    /// The last entry of a dataset's log that searches see.
    pub fn mark(&self, dataset: &Dataset) -> Option<LogMark> {
        self.committed.borrow().get(&dataset.to_string()).cloned()
    }

    /// The sequence number up to which searches see a dataset's log.
    pub fn position(&self, dataset: &Dataset) -> u64 {
        self.mark(dataset).map_or(0, |mark| mark.seq)
    }

    /// Waits until searches see a dataset's log up to a sequence number.
    pub async fn wait_for_position(&self, dataset: &Dataset, position: u64) {
        let name = dataset.to_string();
        let reached = |marks: &Marks| has_reached(marks, &name, position);
        if !reached(&self.committed.borrow()) {
            self.wanted.notify_one();
            // The sender lives as long as `self`.
            drop(self.committed.subscribe().wait_for(reached).await);
        }
    }

    /// Waits until a dataset is requested, or a caller waits for a position.
    pub async fn wait_for_demand(&self) {
        self.wanted.notified().await;
    }

    /// Requests a dataset, so the index follows its log. At the first request, or the first after a drop, the index may
    /// lack a part of the log.
    pub fn request_dataset(&self, dataset: &Dataset) {
        // The lock is held until the dataset is noted as incomplete, so no other request takes it for complete.
        let mut requests = self.requests.lock();
        if requests.insert(dataset.to_string(), None).is_none() {
            self.incomplete.send_modify(|incomplete| {
                incomplete.insert(dataset.to_string(), None);
            });
            self.wanted.notify_one();
        }
    }

    pub fn datasets_without_start(&self) -> Vec<Dataset> {
        let incomplete = self.incomplete.borrow();
        incomplete.iter().filter(|(_, start)| start.is_none()).filter_map(|(name, _)| Dataset::parse(name)).collect()
    }

    /// Sets the position of a dataset's log at its first request.
    pub fn set_start(&self, dataset: &Dataset, start: u64) {
        let name = dataset.to_string();
        let committed = self.committed.borrow();
        let is_complete = has_reached(&committed, &name, start);
        self.incomplete.send_modify(|incomplete| {
            if is_complete {
                incomplete.remove(&name);
            } else {
                incomplete.insert(name, Some(start));
            }
        });
    }

    /// Removes the datasets that the last commit has completed from the incomplete ones.
    pub(super) fn complete(&self) {
        let committed = self.committed.borrow();
        self.incomplete.send_if_modified(|incomplete| {
            let before = incomplete.len();
            incomplete.retain(|name, start| !start.is_some_and(|start| has_reached(&committed, name, start)));
            incomplete.len() < before
        });
    }

    /// Waits until searches see all entries that a dataset's log had at its first request.
    pub async fn wait_until_complete(&self, dataset: &Dataset) {
        let name = dataset.to_string();
        // The sender lives as long as `self`.
        drop(self.incomplete.subscribe().wait_for(|incomplete| !incomplete.contains_key(&name)).await);
    }
}

fn has_reached(committed: &Marks, name: &str, position: u64) -> bool {
    position == 0 || committed.get(name).is_some_and(|mark| mark.seq >= position)
}
