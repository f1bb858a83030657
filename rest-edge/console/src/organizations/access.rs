//! An organization and the rights of the visitor in it.

use prost_types::Timestamp;
use thesis_proto::v1::{self, Role};

use crate::{
    failure::Failed,
    view::{Choice, choices},
    visit::SignedIn,
};

/// All roles. Each role includes the rights of the previous one.
const ROLES: [Role; 3] = [Role::Viewer, Role::Developer, Role::Owner];

/// The choices of a form; the word selects one of them.
pub(super) fn role_choices(chosen: &str) -> Vec<Choice> {
    choices(ROLES.map(|role| (role_word(role), role_name(role))), chosen)
}

/// The value of a role in forms.
pub(super) fn role_word(role: Role) -> &'static str {
    match role {
        Role::Owner => "owner",
        Role::Developer => "developer",
        Role::Viewer | Role::Unspecified => "viewer",
    }
}

/// The readable name of a role.
pub(super) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Owner => "Owner",
        Role::Developer => "Developer",
        Role::Viewer | Role::Unspecified => "Viewer",
    }
}

/// The number of a role. An unknown word gives a number that core refuses.
pub(super) fn role_number(word: &str) -> i32 {
    ROLES.into_iter().find(|role| role_word(*role) == word).unwrap_or_default().into()
}

/// An organization in which the visitor is a member.
pub(super) struct OrganizationAccess {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) plan: String,
    pub(super) created_at: Option<Timestamp>,
    pub(super) revision: u64,
    pub(super) requires_second_factor: bool,
    role: Role,
}

impl OrganizationAccess {
    /// Fails unless the visitor is a member of the organization.
    pub(super) fn of(signed_in: &SignedIn, id: &str) -> Result<Self, Failed> {
        let membership = signed_in.membership(id)?;
        let role = membership.role();
        let v1::Organization { id, name, plan, created_at, revision, requires_second_factor } =
            membership.organization.clone().unwrap_or_default();
        Ok(Self { id, name, plan, created_at, revision, requires_second_factor, role })
    }

    pub(super) fn role(&self) -> &'static str {
        role_name(self.role)
    }

    /// True if the page shows the buttons of owners. Core decides about the action itself.
    pub(super) fn is_owner(&self) -> bool {
        self.role == Role::Owner
    }

    /// True if the page shows the buttons of developers. Owners see them too.
    pub(super) fn is_developer(&self) -> bool {
        self.is_owner() || self.role == Role::Developer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_words_and_others_are_none() {
        for role in ROLES {
            assert_eq!(role_number(role_word(role)), i32::from(role));
            let chosen: Vec<_> = role_choices(role_word(role)).into_iter().filter(|choice| choice.is_taken).collect();
            assert_eq!(chosen.iter().map(|choice| choice.name).collect::<Vec<_>>(), [role_name(role)]);
        }
        assert_eq!(role_number("administrator"), i32::from(Role::Unspecified));
        assert!(role_choices("administrator").iter().all(|choice| !choice.is_taken));
    }
}
