//! The state that the control log has led to.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::domain::control::{ApiKey, ControlChange, Organization, Project, SandboxSeed, Webhook};

/// The state that the control log has led to.
#[derive(Debug, Default)]
pub struct ControlState {
    pub(super) head: u64,
    organizations: BTreeMap<String, Arc<Organization>>,
    projects: BTreeMap<String, Arc<Project>>,
    keys: BTreeMap<String, Arc<ApiKey>>,
    keys_by_hash: HashMap<Vec<u8>, Arc<ApiKey>>,
    webhooks: HashMap<(String, bool), BTreeMap<String, Arc<Webhook>>>,
    seed: Option<SandboxSeed>,
}

impl ControlState {
    /// An organization.
    #[must_use]
    pub fn organization(&self, id: &str) -> Option<&Arc<Organization>> {
        self.organizations.get(id)
    }

    /// Every organization.
    pub fn organizations(&self) -> impl Iterator<Item = &Arc<Organization>> {
        self.organizations.values()
    }

    /// A project.
    #[must_use]
    pub fn project(&self, id: &str) -> Option<&Arc<Project>> {
        self.projects.get(id)
    }

    /// Every project.
    pub fn projects(&self) -> impl Iterator<Item = &Arc<Project>> {
        self.projects.values()
    }

    /// A key by its id.
    #[must_use]
    pub fn key(&self, id: &str) -> Option<&Arc<ApiKey>> {
        self.keys.get(id)
    }

    /// A key by the keyed hash of its raw form.
    #[must_use]
    pub fn key_by_hash(&self, hash: &[u8]) -> Option<&Arc<ApiKey>> {
        self.keys_by_hash.get(hash)
    }

    /// Every key.
    pub fn keys(&self) -> impl Iterator<Item = &Arc<ApiKey>> {
        self.keys.values()
    }

    /// The webhooks of a project and environment.
    pub fn webhooks(&self, project: &str, live: bool) -> impl Iterator<Item = &Arc<Webhook>> {
        self.webhooks.get(&(project.to_owned(), live)).into_iter().flat_map(BTreeMap::values)
    }

    /// Every webhook of an environment.
    pub fn webhooks_of(&self, live: bool) -> impl Iterator<Item = &Arc<Webhook>> {
        self.webhooks.iter().filter(move |((_, is_live), _)| *is_live == live).flat_map(|(_, hooks)| hooks.values())
    }

    /// A webhook of any project.
    #[must_use]
    pub fn webhook(&self, id: &str) -> Option<&Arc<Webhook>> {
        self.webhooks.values().find_map(|hooks| hooks.get(id))
    }

    /// When the sandbox was first laid out.
    #[must_use]
    pub fn seed(&self) -> Option<SandboxSeed> {
        self.seed
    }

    pub(super) fn take(&mut self, change: ControlChange) {
        match change {
            ControlChange::Organization(row) => {
                self.organizations.insert(row.id.clone(), Arc::new(row));
            }
            ControlChange::Project(row) => {
                self.projects.insert(row.id.clone(), Arc::new(row));
            }
            ControlChange::ApiKey(row) => {
                let row = Arc::new(row);
                self.keys_by_hash.insert(row.hash.clone(), Arc::clone(&row));
                self.keys.insert(row.id.clone(), row);
            }
            ControlChange::Webhook(row) => {
                let owner = (row.project_id.clone(), row.live);
                self.webhooks.entry(owner).or_default().insert(row.id.clone(), Arc::new(row));
            }
            ControlChange::WebhookDeleted(id) => {
                for hooks in self.webhooks.values_mut() {
                    hooks.remove(&id);
                }
            }
            ControlChange::SandboxSeed(seed) => self.seed = Some(seed),
        }
    }
}
