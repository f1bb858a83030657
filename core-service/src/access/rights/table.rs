//! What the calls of `AccountService` need.

mod tests;

use crate::domain::account::Role;

/// What a call of `AccountService` needs, beside the service credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// No session.
    Nothing,
    /// A session. The call is about its user alone.
    Session,
    /// This role at least, in the organization concerned.
    Role(Role),
    /// This role at least, or to be the member whom the call is about.
    RoleOrSelf(Role),
}

/// What each method of `AccountService` needs.
pub(crate) const TABLE: &[(&str, Need)] = &[
    ("SignUp", Need::Nothing),
    ("SignIn", Need::Nothing),
    ("GetLink", Need::Nothing),
    ("AcceptInvitation", Need::Nothing),
    ("RequestPasswordReset", Need::Nothing),
    ("ResetPassword", Need::Nothing),
    ("ConfirmEmail", Need::Session),
    ("GetAccount", Need::Session),
    ("SendConfirmation", Need::Session),
    ("SignOut", Need::Session),
    ("ChangePassword", Need::Session),
    ("ListSessions", Need::Session),
    ("RevokeSession", Need::Session),
    ("CreateOrganization", Need::Session),
    ("GetOrganization", Need::Role(Role::Viewer)),
    ("UpdateOrganization", Need::Role(Role::Owner)),
    ("ListMembers", Need::Role(Role::Viewer)),
    ("UpdateMember", Need::Role(Role::Owner)),
    ("RemoveMember", Need::RoleOrSelf(Role::Owner)),
    ("CreateInvitation", Need::Role(Role::Owner)),
    ("ListInvitations", Need::Role(Role::Owner)),
    ("DeleteInvitation", Need::Role(Role::Owner)),
    ("CreateProject", Need::Role(Role::Developer)),
    ("ListProjects", Need::Role(Role::Viewer)),
    ("UpdateProject", Need::Role(Role::Developer)),
    ("ArchiveProject", Need::Role(Role::Owner)),
    ("RequestLiveAccess", Need::Role(Role::Developer)),
    ("CreateKey", Need::Role(Role::Developer)),
    ("ListKeys", Need::Role(Role::Viewer)),
    ("RevokeKey", Need::Role(Role::Developer)),
    ("GetProjectUsage", Need::Role(Role::Viewer)),
    ("ListKeyUsage", Need::Role(Role::Viewer)),
    ("ListAuditEntries", Need::Role(Role::Owner)),
];
