//! How far the index has come in each log, and which datasets it holds whole: it has taken in all entries that their
//! logs held when they were first asked for. Before that, a partial answer would look like a whole one.

use super::{Mark, Marks, SearchIndex};
use crate::domain::dataset::Dataset;

impl SearchIndex {
    /// The last entry of a dataset's log that searches see.
    #[must_use]
    pub fn mark(&self, dataset: &Dataset) -> Option<Mark> {
        self.committed.borrow().get(&dataset.to_string()).cloned()
    }

    /// The sequence number up to which searches see a dataset's log.
    #[must_use]
    pub fn position(&self, dataset: &Dataset) -> u64 {
        self.mark(dataset).map_or(0, |mark| mark.seq)
    }

    /// Waits until searches see a dataset's log up to a sequence number.
    pub async fn reach(&self, dataset: &Dataset, position: u64) {
        let name = dataset.to_string();
        let there = |marks: &Marks| has(marks, &name, position);
        if !there(&self.committed.borrow()) {
            self.wanted.notify_one();
            // The sender lives as long as `self`.
            drop(self.committed.subscribe().wait_for(there).await);
        }
    }

    /// Waits until somebody waits for a position.
    pub async fn wanted(&self) {
        self.wanted.notified().await;
    }

    /// Asks for a dataset, so that the index takes in its log. The first time since it was dropped, the index may lack a
    /// part of it.
    pub fn ask_for(&self, dataset: &Dataset) {
        // Until it is noted as lacking, no other request may find it asked for.
        let mut requests = self.requests.lock();
        if requests.insert(dataset.to_string(), None).is_none() {
            self.lacking.send_modify(|lacking| {
                lacking.insert(dataset.to_string(), None);
            });
            self.wanted.notify_one();
        }
    }

    /// The datasets that were asked for and whose position then is not known yet.
    #[must_use]
    pub fn unmeasured(&self) -> Vec<Dataset> {
        let lacking = self.lacking.borrow();
        lacking.iter().filter(|(_, start)| start.is_none()).filter_map(|(name, _)| Dataset::parse(name)).collect()
    }

    /// Notes the position of a dataset's log after it was asked for.
    pub fn measure(&self, dataset: &Dataset, start: u64) {
        let name = dataset.to_string();
        let committed = self.committed.borrow();
        let is_whole = has(&committed, &name, start);
        self.lacking.send_modify(|lacking| {
            if is_whole {
                lacking.remove(&name);
            } else {
                lacking.insert(name, Some(start));
            }
        });
    }

    /// Takes note of the datasets that the last commit has made whole.
    pub(super) fn complete(&self) {
        let committed = self.committed.borrow();
        self.lacking.send_if_modified(|lacking| {
            let before = lacking.len();
            lacking.retain(|name, start| !start.is_some_and(|start| has(&committed, name, start)));
            lacking.len() < before
        });
    }

    /// Waits until searches see all that a dataset's log held when it was first asked for.
    pub async fn whole(&self, dataset: &Dataset) {
        let name = dataset.to_string();
        // The sender lives as long as `self`.
        drop(self.lacking.subscribe().wait_for(|lacking| !lacking.contains_key(&name)).await);
    }
}

/// Whether the commits reach a position of a dataset's log.
fn has(committed: &Marks, name: &str, position: u64) -> bool {
    position == 0 || committed.get(name).is_some_and(|mark| mark.seq >= position)
}
