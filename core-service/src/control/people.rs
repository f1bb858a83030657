//! Users, the organizations they belong to, and open invitations.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::domain::account::{Invitation, Member, Role, User, folded_email};

#[derive(Debug, Default)]
pub struct People {
    users: HashMap<String, Arc<User>>,
    /// Ids by the folded e-mail.
    by_email: BTreeMap<String, String>,
    /// Members by organization and user.
    members: BTreeMap<String, BTreeMap<String, Arc<Member>>>,
    /// Organizations by user.
    organizations: HashMap<String, BTreeSet<String>>,
    invitations: BTreeMap<String, Arc<Invitation>>,
}

impl People {
    pub fn user(&self, id: &str) -> Option<&Arc<User>> {
        self.users.get(id)
    }

    /// The user with an e-mail, in any case.
    pub fn user_by_email(&self, email: &str) -> Option<&Arc<User>> {
        self.users.get(self.by_email.get(&folded_email(email))?)
    }

    /// Every user, by e-mail.
    pub fn users(&self) -> impl Iterator<Item = &Arc<User>> {
        self.by_email.values().filter_map(|id| self.users.get(id))
    }

    pub fn administrators(&self) -> usize {
        self.users.values().filter(|user| user.administrator).count()
    }

    pub fn member(&self, organization: &str, user: &str) -> Option<&Arc<Member>> {
        self.members.get(organization)?.get(user)
    }

    pub fn members(&self, organization: &str) -> impl Iterator<Item = &Arc<Member>> {
        self.members.get(organization).into_iter().flat_map(BTreeMap::values)
    }

    pub fn has_other_owner(&self, organization: &str, user: &str) -> bool {
        self.members(organization).any(|member| member.role() == Role::Owner && member.user_id != user)
    }

    pub fn memberships(&self, user: &str) -> impl Iterator<Item = &Arc<Member>> {
        let organizations = self.organizations.get(user).into_iter().flatten();
        let user = user.to_owned();
        organizations.filter_map(move |organization| self.member(organization, &user))
    }

    pub fn invitation(&self, id: &str) -> Option<&Arc<Invitation>> {
        self.invitations.get(id)
    }

    /// Every unused invitation.
    pub fn invitations(&self) -> impl Iterator<Item = &Arc<Invitation>> {
        self.invitations.values()
    }

    /// The invitations to an organization that one actor created.
    pub fn invitations_by(&self, organization: &str, creator: &str) -> impl Iterator<Item = &Arc<Invitation>> {
        let is_theirs = move |row: &&Arc<Invitation>| {
            row.creator == creator && row.organization_id.as_deref() == Some(organization)
        };
        self.invitations().filter(is_theirs)
    }

    pub(super) fn set_user(&mut self, row: User) {
        if let Some(before) = self.users.get(&row.id) {
            self.by_email.remove(&folded_email(&before.email));
        }
        self.by_email.insert(folded_email(&row.email), row.id.clone());
        self.users.insert(row.id.clone(), Arc::new(row));
    }

    pub(super) fn set_member(&mut self, row: Member) {
        self.organizations.entry(row.user_id.clone()).or_default().insert(row.organization_id.clone());
        self.members.entry(row.organization_id.clone()).or_default().insert(row.user_id.clone(), Arc::new(row));
    }

    pub(super) fn remove_member(&mut self, id: &str) {
        let Some((organization, user)) = id.split_once('/') else { return };
        if let Some(members) = self.members.get_mut(organization) {
            members.remove(user);
        }
        if let Some(organizations) = self.organizations.get_mut(user) {
            organizations.remove(organization);
        }
    }

    pub(super) fn set_invitation(&mut self, row: Invitation) {
        self.invitations.insert(row.id.clone(), Arc::new(row));
    }

    pub(super) fn remove_invitation(&mut self, id: &str) {
        self.invitations.remove(id);
    }
}
