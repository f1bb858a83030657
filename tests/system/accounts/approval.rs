//! Live access: asked for, refused, approved, withdrawn, and the end of a project.

use thesis_proto::{
    error::ErrorCode,
    v1::{self, Environment},
};

use super::everywhere;
use crate::harness::{Answer, Person, Service, person::refused};

on_both_stores![live_access_is_asked_for_and_decided, an_archived_project_is_over, only_administrators_decide];

fn is(status: u16, code: &str) -> impl Fn(&Answer) -> bool {
    move |answer| answer.status == status && (status == 200 || answer.json()["error"]["code"] == code)
}

async fn state(person: &Person, organization: &str) -> v1::Project {
    let mut projects = person.projects(organization).await;
    assert_eq!(projects.len(), 1);
    projects.remove(0)
}

async fn live_access_is_asked_for_and_decided(service: &Service) {
    let (owner, organization) = service.owner().await;
    let administrator = service.administrator().await;
    let id = owner.project(&organization, "Hive").await.id;
    // Anyone may make a live key; it works only once the project is approved.
    let (_, raw) = owner.key(&id, Environment::Live).await;
    everywhere(service, &raw, "nothing is approved", is(403, "LIVE_ACCESS_NOT_APPROVED")).await;

    let asked = owner.request_live(&id).await;
    assert!(asked.live_requested_at.is_some() && asked.live_refusal.is_none());
    // Asking twice is asking once.
    assert_eq!(owner.request_live(&id).await.live_requested_at, asked.live_requested_at);
    let listed = administrator.administer().list_projects(v1::ListProjectsRequest::default()).await.unwrap();
    let waits = |project: &&v1::Project| project.id == id && project.live_requested_at.is_some();
    assert_eq!(listed.into_inner().data.iter().filter(waits).count(), 1);

    let refuse = |reason: &str| v1::RefuseProjectRequest { id: id.clone(), reason: reason.to_owned() };
    for wrong in [String::new(), "x".repeat(501)] {
        let error =
            refused(administrator.administer().refuse_project(refuse(&wrong)).await, ErrorCode::ValidationFailed);
        assert_eq!(error.param.as_deref(), Some("reason"));
    }
    administrator.administer().refuse_project(refuse("Say what it is for.")).await.unwrap();
    let told = state(&owner, &organization).await;
    assert_eq!((told.live_refusal.as_deref(), told.live_requested_at), (Some("Say what it is for."), None));
    everywhere(service, &raw, "it was refused", is(403, "LIVE_ACCESS_NOT_APPROVED")).await;

    let again = owner.request_live(&id).await;
    assert!(again.live_requested_at.is_some(), "{again:?}");
    administrator.administer().approve_project(v1::ApproveProjectRequest { id: id.clone() }).await.unwrap();
    everywhere(service, &raw, "it was approved", is(200, "")).await;
    let told = state(&owner, &organization).await;
    assert_eq!((told.live_approved, told.live_refusal, told.live_requested_at), (true, None, None));

    administrator
        .administer()
        .withdraw_project(v1::WithdrawProjectRequest { id: id.clone(), reason: None })
        .await
        .unwrap();
    everywhere(service, &raw, "it was withdrawn", is(403, "LIVE_ACCESS_NOT_APPROVED")).await;
    assert!(!state(&owner, &organization).await.live_approved);
}

async fn an_archived_project_is_over(service: &Service) {
    let (owner, organization) = service.owner().await;
    let id = owner.project(&organization, "Hive").await.id;
    let (_, raw) = owner.key(&id, Environment::Test).await;
    everywhere(service, &raw, "its key works", is(200, "")).await;
    let archive = v1::AccountServiceArchiveProjectRequest { id: id.clone() };
    let archived = owner.ask().archive_project(archive.clone()).await.unwrap().into_inner().project.unwrap();
    assert!(archived.archived);
    everywhere(service, &raw, "it was archived", is(403, "PROJECT_ARCHIVED")).await;
    owner.ask().archive_project(archive).await.unwrap();
}

async fn only_administrators_decide(service: &Service) {
    let (owner, organization) = service.owner().await;
    let id = owner.project(&organization, "Hive").await.id;
    owner.request_live(&id).await;
    let approve = v1::ApproveProjectRequest { id: id.clone() };
    let failure = owner.administer().approve_project(approve.clone()).await.unwrap_err();
    assert_eq!(failure.code(), tonic::Code::PermissionDenied, "{failure:?}");
    let failure = owner.administer().list_users(v1::ListUsersRequest {}).await.unwrap_err();
    assert_eq!(failure.code(), tonic::Code::PermissionDenied, "{failure:?}");
    // Neither does a session that is none.
    let mut stranger = service.person();
    stranger.session = Some("ses_usr_0_0".to_owned());
    refused(stranger.administer().approve_project(approve).await, ErrorCode::SignInRequired);
    assert!(!state(&owner, &organization).await.live_approved);
}
