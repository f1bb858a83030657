//! The requirements of the calls of `AccountService`.

use prost::Message as _;
use prost_types::FileDescriptorSet;
use thesis_proto::v1;

use super::{demand_confirmed, demand_in_use, demand_revision, demand_role, organization, project};
use crate::{
    control::ControlState,
    domain::{
        account::{Actor, Role},
        control::Project,
    },
};

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
    ("FinishSignIn", Requirement::Nothing),
    ("GetFactorChallenge", Requirement::Nothing),
    ("GetSignInSettings", Requirement::Nothing),
    ("GetLink", Requirement::Nothing),
    ("AcceptInvitation", Requirement::Nothing),
    ("RequestPasswordReset", Requirement::Nothing),
    ("ResetPassword", Requirement::Nothing),
    ("ConfirmEmail", Requirement::Session),
    ("GetAccount", Requirement::Session),
    ("SendConfirmation", Requirement::Session),
    ("SignOut", Requirement::Session),
    ("ChangePassword", Requirement::Session),
    ("BeginConfirmation", Requirement::Session),
    ("ConfirmSession", Requirement::Session),
    ("ListFactors", Requirement::Session),
    ("BeginTotp", Requirement::Session),
    ("AddTotp", Requirement::Session),
    ("BeginPasskey", Requirement::Session),
    ("AddPasskey", Requirement::Session),
    ("RemoveFactor", Requirement::Session),
    ("CreateRecoveryCodes", Requirement::Session),
    ("ListDevices", Requirement::Session),
    ("ForgetDevice", Requirement::Session),
    ("ListSessions", Requirement::Session),
    ("RevokeSession", Requirement::Session),
    ("CreateOrganization", Requirement::Session),
    ("GetOrganization", Requirement::Role(Role::Viewer)),
    ("UpdateOrganization", Requirement::Role(Role::Owner)),
    ("RequireSecondFactor", Requirement::Role(Role::Owner)),
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
    ("RollKey", Requirement::Role(Role::Developer)),
    ("ListKeys", Requirement::Role(Role::Viewer)),
    ("RevokeKey", Requirement::Role(Role::Developer)),
    ("GetProjectUsage", Requirement::Role(Role::Viewer)),
    ("ListKeyUsage", Requirement::Role(Role::Viewer)),
    ("ListLoggedRequests", Requirement::Role(Role::Viewer)),
    ("GetLoggedRequest", Requirement::Role(Role::Viewer)),
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

#[test]
fn a_role_includes_those_before_it() {
    let roles = [Role::Viewer, Role::Developer, Role::Owner];
    for (place, role) in roles.into_iter().enumerate() {
        let permitted = roles.map(|required| demand_role(role, required).is_ok());
        assert_eq!(permitted, [0, 1, 2].map(|required| required <= place), "{role:?}");
    }
}

#[test]
fn a_change_needs_the_present_revision_and_a_project_in_use() {
    assert!(demand_revision(None, 5).is_ok() && demand_revision(Some(5), 5).is_ok());
    assert!(demand_revision(Some(4), 5).is_err() && demand_revision(Some(6), 5).is_err());
    let archived = |archived| demand_in_use(&Project { archived, ..Project::default() });
    assert!(archived(false).is_ok() && archived(true).is_err());
}

#[test]
fn an_operator_learns_more_of_what_does_not_exist_than_a_member() {
    let state = ControlState::default();
    let member = Actor { id: "usr_1".to_owned(), address: None, is_member: true };
    let operator = Actor::operator(None);
    let errors = |actor: &Actor| {
        let organization = organization(&state, actor, "org_1", Role::Viewer).unwrap_err();
        [organization, project(&state, actor, "prj_1", Role::Viewer).unwrap_err()].map(|error| error.to_string())
    };
    assert!(errors(&member).iter().all(|error| error.contains("you are no member of it")));
    assert!(errors(&operator).iter().all(|error| error.contains("`trade-thesis admin ")));
    assert!(demand_confirmed(&state, &operator).is_ok() && demand_confirmed(&state, &member).is_err());
}
