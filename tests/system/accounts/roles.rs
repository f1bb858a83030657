//! What each role may do: every call, by everyone. Another organization's things do not exist.

use futures::future::LocalBoxFuture;
use thesis_proto::{
    error::ErrorCode,
    time::from_millis,
    v1::{self, Environment, Role},
};
use tonic::{Response, Status};

use crate::harness::{
    Person, Service, now_ms,
    person::{new_invitation, new_key, refused},
};

on_both_stores![each_role_may_do_its_own, everybody_may_leave];

/// What the calls are about.
#[derive(Clone)]
struct Ids {
    organization: String,
    project: String,
    key: String,
    invitation: String,
    user: String,
}

/// A call, the least role that may make it, and the error for what does not exist.
struct Call {
    name: &'static str,
    least: Role,
    unknown: ErrorCode,
    ask: for<'a> fn(&'a Person, &'a Ids) -> LocalBoxFuture<'a, Result<(), Status>>,
}

macro_rules! call {
    ($least:ident, $unknown:ident, $method:ident, $request:expr) => {
        Call {
            name: stringify!($method),
            least: Role::$least,
            unknown: ErrorCode::$unknown,
            ask: |person, ids| {
                let request = of(ids, $request);
                Box::pin(async move { person.ask().$method(request).await.map(drop) })
            },
        }
    };
}

fn of<T>(ids: &Ids, request: impl FnOnce(Ids) -> T) -> T {
    request(ids.clone())
}

/// Every call that concerns an organization. Those that end something come last.
const CALLS: &[Call] = &[
    call!(Viewer, OrganizationNotFound, get_organization, |ids| v1::GetOrganizationRequest { id: ids.organization }),
    call!(Viewer, OrganizationNotFound, list_members, |ids| v1::ListMembersRequest {
        organization_id: ids.organization
    }),
    call!(Viewer, OrganizationNotFound, list_projects, |ids| v1::AccountServiceListProjectsRequest {
        organization_id: ids.organization
    }),
    call!(Viewer, ProjectNotFound, list_keys, |ids| v1::AccountServiceListKeysRequest { project_id: ids.project }),
    call!(Viewer, ProjectNotFound, get_project_usage, |ids| v1::GetProjectUsageRequest { project_id: ids.project }),
    call!(Viewer, ProjectNotFound, list_key_usage, |ids| v1::ListKeyUsageRequest {
        project_id: ids.project,
        from: Some(from_millis(now_ms() - 3_600_000)),
        to: None,
    }),
    call!(Viewer, ProjectNotFound, list_logged_requests, |ids| v1::ListLoggedRequestsRequest {
        project_id: ids.project,
        environment: Environment::Test.into(),
        ..Default::default()
    }),
    call!(Viewer, ProjectNotFound, get_logged_request, |ids| v1::GetLoggedRequestRequest {
        project_id: ids.project,
        environment: Environment::Test.into(),
        began_at: Some(from_millis(now_ms())),
        id: "req_unknown".to_owned(),
    }),
    call!(Developer, OrganizationNotFound, create_project, |ids| v1::AccountServiceCreateProjectRequest {
        organization_id: ids.organization,
        name: "more".to_owned(),
        once: None,
    }),
    call!(Developer, ProjectNotFound, update_project, |ids| v1::UpdateProjectRequest {
        id: ids.project,
        name: "renamed".to_owned(),
        revision: None,
    }),
    call!(Developer, ProjectNotFound, request_live_access, |ids| v1::RequestLiveAccessRequest {
        project_id: ids.project,
        note: None,
    }),
    call!(Developer, ProjectNotFound, create_key, |ids| new_key(&ids.project, Environment::Test)),
    call!(Developer, KeyNotFound, roll_key, |ids| v1::RollKeyRequest {
        id: ids.key,
        ends_at: Some(from_millis(now_ms() + 3_600_000)),
        ..v1::RollKeyRequest::default()
    }),
    call!(Developer, KeyNotFound, revoke_key, |ids| v1::AccountServiceRevokeKeyRequest { id: ids.key }),
    call!(Owner, OrganizationNotFound, update_organization, |ids| v1::UpdateOrganizationRequest {
        id: ids.organization,
        name: "Renamed".to_owned(),
        revision: None,
    }),
    call!(Owner, OrganizationNotFound, require_second_factor, |ids| v1::RequireSecondFactorRequest {
        organization_id: ids.organization,
        required: false,
    }),
    call!(Owner, OrganizationNotFound, update_member, |ids| v1::UpdateMemberRequest {
        organization_id: ids.organization,
        user_id: ids.user,
        role: Role::Developer.into(),
        revision: None,
    }),
    call!(Owner, OrganizationNotFound, create_invitation, |ids| new_invitation(
        &ids.organization,
        "another@people.example",
        Role::Viewer
    )),
    call!(Owner, OrganizationNotFound, list_invitations, |ids| v1::ListInvitationsRequest {
        organization_id: ids.organization
    }),
    call!(Owner, OrganizationNotFound, list_audit_entries, |ids| v1::ListAuditEntriesRequest {
        organization_id: ids.organization,
        ..v1::ListAuditEntriesRequest::default()
    }),
    call!(Owner, InvitationNotFound, delete_invitation, |ids| v1::DeleteInvitationRequest { id: ids.invitation }),
    call!(Owner, OrganizationNotFound, remove_member, |ids| v1::RemoveMemberRequest {
        organization_id: ids.organization,
        user_id: ids.user,
    }),
    call!(Owner, ProjectNotFound, archive_project, |ids| v1::AccountServiceArchiveProjectRequest { id: ids.project }),
];

async fn answer(call: &Call, person: &Person, ids: &Ids) -> Result<Response<()>, Status> {
    (call.ask)(person, ids).await.map(Response::new)
}

/// All that an owner sees.
async fn seen(owner: &Person, ids: &Ids) -> String {
    let organization = v1::GetOrganizationRequest { id: ids.organization.clone() };
    let invitations = v1::ListInvitationsRequest { organization_id: ids.organization.clone() };
    let keys = v1::AccountServiceListKeysRequest { project_id: ids.project.clone() };
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?}",
        owner.ask().get_organization(organization).await.unwrap().into_inner(),
        owner.members(&ids.organization).await,
        owner.ask().list_invitations(invitations).await.unwrap().into_inner(),
        owner.projects(&ids.organization).await,
        owner.ask().list_keys(keys).await.unwrap().into_inner(),
        owner.audit(&ids.organization).await,
    )
}

async fn each_role_may_do_its_own(service: &Service) {
    let (owner, organization) = service.owner().await;
    let viewer = service.member(&owner, &organization, Role::Viewer).await;
    let developer = service.member(&owner, &organization, Role::Developer).await;
    let target = service.member(&owner, &organization, Role::Viewer).await;
    let (outsider, _) = service.owner().await;
    let project = owner.project(&organization, "Hive").await.id;
    let key = owner.key(&project, Environment::Test).await.0.id;
    let request = new_invitation(&organization, "somebody@people.example", Role::Viewer);
    let invitation = owner.ask().create_invitation(request).await.unwrap().into_inner().invitation.unwrap().id;
    let ids = Ids { organization, project, key, invitation, user: target.id.clone() };
    let nothing = Ids {
        organization: format!("org_{}", "0".repeat(25)),
        project: format!("prj_{}", "0".repeat(25)),
        key: format!("key_{}", "0".repeat(25)),
        invitation: format!("inv_{}", "0".repeat(25)),
        user: ids.user.clone(),
    };
    let nobody = service.person();

    let before = seen(&owner, &ids).await;
    for call in CALLS {
        refused(answer(call, &nobody, &ids).await, ErrorCode::SignInRequired);
        let theirs = refused(answer(call, &outsider, &ids).await, call.unknown);
        let unknown = refused(answer(call, &owner, &nothing).await, call.unknown);
        assert_eq!(theirs, unknown, "{}: it is told that it exists", call.name);
        for (person, role) in [(&viewer, Role::Viewer), (&developer, Role::Developer)] {
            if role < call.least {
                let error = refused(answer(call, person, &ids).await, ErrorCode::InsufficientRole);
                assert!(error.message.contains("owner"), "{}: {error:?}", call.name);
            }
        }
    }
    assert_eq!(seen(&owner, &ids).await, before, "a refused call has changed something");
    for call in CALLS {
        let able = match call.least {
            Role::Viewer => &viewer,
            Role::Developer => &developer,
            _ => &owner,
        };
        let answer = (call.ask)(able, &ids).await;
        assert!(answer.is_ok(), "{}: {answer:?}", call.name);
    }
    // Who was removed is an outsider.
    let asked = target.ask().get_organization(v1::GetOrganizationRequest { id: ids.organization.clone() }).await;
    refused(asked, ErrorCode::OrganizationNotFound);
    // A role acts at every core once it is changed.
    let promote = v1::UpdateMemberRequest {
        organization_id: ids.organization.clone(),
        user_id: viewer.id.clone(),
        role: Role::Owner.into(),
        revision: None,
    };
    owner.ask().update_member(promote).await.unwrap();
    for _ in &service.cores {
        viewer.audit(&ids.organization).await;
    }
}

async fn everybody_may_leave(service: &Service) {
    let (owner, organization) = service.owner().await;
    for role in [Role::Viewer, Role::Developer, Role::Owner] {
        let member = service.member(&owner, &organization, role).await;
        let leave = v1::RemoveMemberRequest { organization_id: organization.clone(), user_id: member.id.clone() };
        member.ask().remove_member(leave).await.unwrap();
        assert!(member.account().await.memberships.is_empty());
    }
    assert_eq!(owner.members(&organization).await.len(), 1);
    let stranger =
        v1::RemoveMemberRequest { organization_id: organization.clone(), user_id: format!("usr_{}", "0".repeat(25)) };
    refused(owner.ask().remove_member(stranger).await, ErrorCode::MemberNotFound);
}
