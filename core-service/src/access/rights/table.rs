//! What the calls of `AccountService` need.

mod tests;

use crate::domain::account::Role;

/// What a call of `AccountService` needs, beside the service credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
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
pub(crate) const TABLE: &[(&str, Requirement)] = &[
    ("SignUp", Requirement::Nothing),
    ("SignIn", Requirement::Nothing),
    ("GetLink", Requirement::Nothing),
    ("AcceptInvitation", Requirement::Nothing),
    ("RequestPasswordReset", Requirement::Nothing),
    ("ResetPassword", Requirement::Nothing),
    ("ConfirmEmail", Requirement::Session),
    ("GetAccount", Requirement::Session),
    ("SendConfirmation", Requirement::Session),
    ("SignOut", Requirement::Session),
    ("ChangePassword", Requirement::Session),
    ("ListSessions", Requirement::Session),
    ("RevokeSession", Requirement::Session),
    ("CreateOrganization", Requirement::Session),
    ("GetOrganization", Requirement::Role(Role::Viewer)),
    ("UpdateOrganization", Requirement::Role(Role::Owner)),
    ("ListMembers", Requirement::Role(Role::Viewer)),
    ("UpdateMember", Requirement::Role(Role::Owner)),
    ("RemoveMember", Requirement::RoleOrSelf(Role::Owner)),
    ("CreateInvitation", Requirement::Role(Role::Owner)),
    ("ListInvitations", Requirement::Role(Role::Owner)),
    ("DeleteInvitation", Requirement::Role(Role::Owner)),
    ("CreateProject", Requirement::Role(Role::Developer)),
    ("ListProjects", Requirement::Role(Role::Viewer)),
    ("UpdateProject", Requirement::Role(Role::Developer)),
    ("ArchiveProject", Requirement::Role(Role::Owner)),
    ("RequestLiveAccess", Requirement::Role(Role::Developer)),
    ("CreateKey", Requirement::Role(Role::Developer)),
    ("ListKeys", Requirement::Role(Role::Viewer)),
    ("RevokeKey", Requirement::Role(Role::Developer)),
    ("GetProjectUsage", Requirement::Role(Role::Viewer)),
    ("ListKeyUsage", Requirement::Role(Role::Viewer)),
    ("ListAuditEntries", Requirement::Role(Role::Owner)),
];
