//! The alerts of all projects.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::domain::alert::Alert;

#[derive(Debug, Default)]
pub struct Alerts {
    by_id: HashMap<String, Arc<Alert>>,
    by_owner: BTreeMap<(String, bool), BTreeMap<String, Arc<Alert>>>,
    /// Number of changes.
    changes: u64,
}

impl Alerts {
    pub fn get(&self, id: &str) -> Option<&Arc<Alert>> {
        self.by_id.get(id)
    }

    /// The alerts of a project and environment.
    pub fn of(&self, project: &str, live: bool) -> impl Iterator<Item = &Arc<Alert>> {
        self.by_owner.get(&(project.to_owned(), live)).into_iter().flat_map(BTreeMap::values)
    }

    /// All alerts of an environment.
    pub fn in_environment(&self, live: bool) -> impl Iterator<Item = &Arc<Alert>> {
        self.by_id.values().filter(move |alert| alert.live == live)
    }

    /// A number that grows with each change.
    pub const fn changes(&self) -> u64 {
        self.changes
    }

    pub(super) fn set(&mut self, alert: Alert) {
        let alert = Arc::new(alert);
        self.changes += 1;
        let owner = (alert.project_id.clone(), alert.live);
        self.by_owner.entry(owner).or_default().insert(alert.id.clone(), Arc::clone(&alert));
        self.by_id.insert(alert.id.clone(), alert);
    }

    pub(super) fn remove(&mut self, id: &str) {
        let Some(alert) = self.by_id.remove(id) else { return };
        self.changes += 1;
        let owner = (alert.project_id.clone(), alert.live);
        if let Some(alerts) = self.by_owner.get_mut(&owner) {
            alerts.remove(id);
            if alerts.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
    }
}
