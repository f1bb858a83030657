//! Two people who change one thing, one after the other.

use thesis_proto::{
    error::ErrorCode,
    v1::{self, Role},
};

use crate::harness::{Service, person::refused};

on_both_stores![an_organization, a_project, a_member];

async fn an_organization(service: &Service) {
    let (owner, id) = service.owner().await;
    let other = service.member(&owner, &id, Role::Owner).await;
    let asked = v1::GetOrganizationRequest { id: id.clone() };
    let seen = owner.ask().get_organization(asked).await.unwrap().into_inner().organization.unwrap();
    let rename =
        |name: &str, revision| v1::UpdateOrganizationRequest { id: id.clone(), name: name.to_owned(), revision };
    let changed = owner.ask().update_organization(rename("First", Some(seen.revision))).await.unwrap().into_inner();
    let changed = changed.organization.unwrap();
    assert!(changed.revision > seen.revision && changed.name == "First", "{changed:?}");
    let late = other.ask().update_organization(rename("Second", Some(seen.revision))).await;
    assert!(refused(late, ErrorCode::ChangedMeanwhile).message.contains("again"));
    other.ask().update_organization(rename("Second", Some(changed.revision))).await.unwrap();
    // Without a revision the last one wins.
    let last = owner.ask().update_organization(rename("Third", None)).await.unwrap().into_inner();
    assert_eq!(last.organization.unwrap().name, "Third");
}

async fn a_project(service: &Service) {
    let (owner, organization) = service.owner().await;
    let seen = owner.project(&organization, "Hive").await;
    let rename =
        |name: &str, revision| v1::UpdateProjectRequest { id: seen.id.clone(), name: name.to_owned(), revision };
    let changed = owner.ask().update_project(rename("First", Some(seen.revision))).await.unwrap().into_inner();
    assert!(changed.project.unwrap().revision > seen.revision);
    refused(owner.ask().update_project(rename("Second", Some(seen.revision))).await, ErrorCode::ChangedMeanwhile);
    assert_eq!(owner.projects(&organization).await[0].name, "First");
}

async fn a_member(service: &Service) {
    let (owner, organization) = service.owner().await;
    let member = service.member(&owner, &organization, Role::Viewer).await;
    let members = owner.members(&organization).await;
    let seen = members.iter().find(|row| row.user.as_ref().unwrap().id == member.id).unwrap();
    let promote = |role: Role, revision| v1::UpdateMemberRequest {
        organization_id: organization.clone(),
        user_id: member.id.clone(),
        role: role.into(),
        revision,
    };
    let changed = owner.ask().update_member(promote(Role::Developer, Some(seen.revision))).await.unwrap().into_inner();
    let changed = changed.member.unwrap();
    assert!(changed.role() == Role::Developer && changed.revision > seen.revision, "{changed:?}");
    let late = owner.ask().update_member(promote(Role::Owner, Some(seen.revision))).await;
    refused(late, ErrorCode::ChangedMeanwhile);
    let unspecified = owner.ask().update_member(promote(Role::Unspecified, None)).await;
    assert_eq!(refused(unspecified, ErrorCode::ValidationFailed).param.as_deref(), Some("role"));
}
