//! The requirements of the calls of `AccountService`.

use prost::Message as _;
use prost_types::FileDescriptorSet;
use thesis_proto::v1;

use crate::domain::account::Role;

/// The requirement of a call of `AccountService`, beside the service credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Requirement {
    /// The call needs no session.
    Nothing,
    /// The call needs a session, and concerns only its user.
    Session,
    /// The caller needs at least this role in the organization.
    Role(Role),
    /// The caller needs at least this role, or is the member whom the call concerns.
    RoleOrSelf(Role),
}

/// The requirement of each method of `AccountService`.
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

#[test]
fn the_table_names_every_method_once() {
    let files = FileDescriptorSet::decode(v1::FILE_DESCRIPTOR_SET).unwrap();
    let mut services = files.file.iter().flat_map(|file| &file.service);
    let service = services.find(|service| service.name() == "AccountService").unwrap();
    let methods: Vec<&str> = service.method.iter().map(|method| method.name()).collect();
    assert_eq!(TABLE.iter().map(|(method, _)| *method).collect::<Vec<_>>(), methods);
}
