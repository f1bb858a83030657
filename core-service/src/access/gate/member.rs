//! A person as the caller of a public service.

use thesis_proto::names::CONSOLE;

use crate::{
    access::rights,
    control::ControlState,
    domain::{
        account::{Actor, Role},
        control::ApiKey,
        member_key::MemberKey,
        operation::Operation,
        scope::Scope,
    },
    error::Result,
};

/// A person as the caller of a public service: a member of the project's organization.
#[derive(Clone, Debug)]
pub struct Member {
    pub key: MemberKey,
    role: Role,
}

impl Member {
    pub(super) fn find(state: &ControlState, key: MemberKey) -> Result<Self> {
        let actor = Actor { id: key.user_id.clone(), address: None, is_member: true };
        let project = rights::project(state, &actor, &key.project_id, Role::Viewer)?;
        let member = state.people().member(&project.organization_id, &key.user_id);
        let role = member.ok_or_else(rights::no_project)?.role();
        Ok(Self { key, role })
    }

    /// A key with the member's scopes. It cannot read wallets: only real keys may.
    pub(super) fn api_key(&self) -> ApiKey {
        let scopes = Scope::ALL.iter().filter(|scope| **scope != Scope::WalletsRead);
        ApiKey {
            id: format!("{CONSOLE}{}", self.key.project_id),
            project_id: self.key.project_id.clone(),
            live: self.key.live,
            name: "Console".to_owned(),
            scopes: scopes.map(|scope| scope.as_str().to_owned()).collect(),
            ..ApiKey::default()
        }
    }

    /// Refuses changes by viewers.
    pub(super) fn permit(&self, operation: Operation) -> Result<()> {
        if operation.is_change() { rights::demand_role(self.role, Role::Developer) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests;
