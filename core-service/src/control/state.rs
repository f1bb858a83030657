//! The state after the entries of the control log.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use thesis_proto::filter::EventKeys;

use super::{alerts::Alerts, matching::Matching, people::People};
use crate::domain::{
    control::{ApiKey, ControlChange, Organization, Project, SandboxSeed, Webhook},
    dataset::Dataset,
};

#[derive(Debug, Default)]
pub struct ControlState {
    pub(super) head: u64,
    organizations: BTreeMap<String, Arc<Organization>>,
    projects: BTreeMap<String, Arc<Project>>,
    keys: BTreeMap<String, Arc<ApiKey>>,
    keys_by_hash: HashMap<Vec<u8>, Arc<ApiKey>>,
    webhooks: HashMap<(String, bool), BTreeMap<String, Arc<Webhook>>>,
    webhooks_by_id: HashMap<String, Arc<Webhook>>,
    matching: Matching,
    /// Number of changes that may change which events a webhook gets. One that is several counts once more.
    judgements: u64,
    seed: Option<SandboxSeed>,
    people: People,
    alerts: Alerts,
}

impl ControlState {
    pub fn organization(&self, id: &str) -> Option<&Arc<Organization>> {
        self.organizations.get(id)
    }

    pub fn organizations(&self) -> impl Iterator<Item = &Arc<Organization>> {
        self.organizations.values()
    }

    pub fn project(&self, id: &str) -> Option<&Arc<Project>> {
        self.projects.get(id)
    }

    pub fn projects(&self) -> impl Iterator<Item = &Arc<Project>> {
        self.projects.values()
    }

    pub fn key(&self, id: &str) -> Option<&Arc<ApiKey>> {
        self.keys.get(id)
    }

    /// A key by the keyed hash of its raw form.
    pub fn key_by_hash(&self, hash: &[u8]) -> Option<&Arc<ApiKey>> {
        self.keys_by_hash.get(hash)
    }

    pub fn keys(&self) -> impl Iterator<Item = &Arc<ApiKey>> {
        self.keys.values()
    }

    pub fn webhooks(&self, project: &str, live: bool) -> impl Iterator<Item = &Arc<Webhook>> {
        self.webhooks.get(&(project.to_owned(), live)).into_iter().flat_map(BTreeMap::values)
    }

    pub fn every_webhook(&self) -> impl Iterator<Item = &Arc<Webhook>> {
        self.webhooks_by_id.values()
    }

    pub fn webhook(&self, id: &str) -> Option<&Arc<Webhook>> {
        self.webhooks_by_id.get(id)
    }

    /// True if no enabled webhook sees a dataset.
    pub fn is_unseen(&self, dataset: &Dataset) -> bool {
        self.matching.is_unseen(dataset)
    }

    pub fn matching(&self, dataset: &Dataset, keys: &EventKeys) -> Vec<Arc<Webhook>> {
        self.matching.matching(dataset, keys)
    }

    pub const fn judgements(&self) -> u64 {
        self.judgements
    }

    /// The time at which the sandbox was first laid out.
    pub fn seed(&self) -> Option<SandboxSeed> {
        self.seed
    }

    pub const fn alerts(&self) -> &Alerts {
        &self.alerts
    }

    pub const fn people(&self) -> &People {
        &self.people
    }

    pub(super) fn organization_of(&self, change: &ControlChange) -> Option<String> {
        let of_project = |id: &str| Some(self.project(id)?.organization_id.clone());
        match change {
            ControlChange::Organization(row) => Some(row.id.clone()),
            ControlChange::Project(row) => Some(row.organization_id.clone()),
            ControlChange::ApiKey(row) => of_project(&row.project_id),
            ControlChange::Webhook(row) => of_project(&row.project_id),
            ControlChange::WebhookDeleted(id) => of_project(&self.webhook(id)?.project_id),
            ControlChange::Alert(row) => of_project(&row.project_id),
            ControlChange::AlertDeleted(id) => of_project(&self.alerts.get(id)?.project_id),
            ControlChange::Member(row) => Some(row.organization_id.clone()),
            ControlChange::MemberGone(id) => id.split_once('/').map(|(organization, _)| organization.to_owned()),
            ControlChange::Invitation(row) => row.organization_id.clone(),
            ControlChange::InvitationGone(id) => self.people.invitation(id)?.organization_id.clone(),
            ControlChange::SandboxSeed(_) | ControlChange::User(_) | ControlChange::Several(_) => None,
        }
    }

    /// True if a change may change which events a webhook gets.
    pub(super) fn is_judgement(change: &ControlChange) -> bool {
        match change {
            ControlChange::Project(_) | ControlChange::Webhook(_) | ControlChange::WebhookDeleted(_) => true,
            ControlChange::Several(several) => {
                several.changes.iter().filter_map(|entry| entry.change.as_ref()).any(Self::is_judgement)
            }
            ControlChange::Organization(_)
            | ControlChange::ApiKey(_)
            | ControlChange::SandboxSeed(_)
            | ControlChange::User(_)
            | ControlChange::Member(_)
            | ControlChange::MemberGone(_)
            | ControlChange::Invitation(_)
            | ControlChange::InvitationGone(_)
            | ControlChange::Alert(_)
            | ControlChange::AlertDeleted(_) => false,
        }
    }

    pub(super) fn apply_change(&mut self, change: ControlChange) {
        self.judgements += u64::from(Self::is_judgement(&change));
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
                let row = Arc::new(row);
                self.forget_webhook(&row.id);
                self.matching.set(&row);
                let owner = (row.project_id.clone(), row.live);
                self.webhooks.entry(owner).or_default().insert(row.id.clone(), Arc::clone(&row));
                self.webhooks_by_id.insert(row.id.clone(), row);
            }
            ControlChange::WebhookDeleted(id) => {
                self.matching.remove(&id);
                self.forget_webhook(&id);
            }
            ControlChange::Alert(row) => self.alerts.set(row),
            ControlChange::AlertDeleted(id) => self.alerts.remove(&id),
            ControlChange::SandboxSeed(seed) => self.seed = Some(seed),
            ControlChange::User(row) => self.people.set_user(row),
            ControlChange::Member(row) => self.people.set_member(row),
            ControlChange::MemberGone(id) => self.people.remove_member(&id),
            ControlChange::Invitation(row) => self.people.set_invitation(row),
            ControlChange::InvitationGone(id) => self.people.remove_invitation(&id),
            ControlChange::Several(several) => {
                several
                    .changes
                    .into_iter()
                    .filter_map(|entry| entry.change)
                    .for_each(|change| self.apply_change(change));
            }
        }
    }

    fn forget_webhook(&mut self, id: &str) {
        let Some(webhook) = self.webhooks_by_id.remove(id) else { return };
        let owner = (webhook.project_id.clone(), webhook.live);
        if let Some(hooks) = self.webhooks.get_mut(&owner) {
            hooks.remove(id);
            if hooks.is_empty() {
                self.webhooks.remove(&owner);
            }
        }
    }
}
