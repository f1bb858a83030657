//! The last owner of an organization and the last administrator stay.

use thesis_proto::{
    error::{ApiError, ErrorCode},
    v1::{self, Role},
};

use crate::harness::{Service, Store, person::refused};

/// With the service that most tests share.
mod owner {
    use super::the_last_owner_stays;

    on_both_stores![the_last_owner_stays];
}

on_stores_of_their_own![the_last_administrator_stays];

async fn the_last_owner_stays(service: &Service) {
    let (owner, organization) = service.owner().await;
    let other = service.member(&owner, &organization, Role::Developer).await;
    let leave = v1::RemoveMemberRequest { organization_id: organization.clone(), user_id: owner.id.clone() };
    refused(owner.ask().remove_member(leave.clone()).await, ErrorCode::LastOwner);
    let set = |user_id: &str, role: Role| v1::UpdateMemberRequest {
        organization_id: organization.clone(),
        user_id: user_id.to_owned(),
        role: role.into(),
        revision: None,
    };
    refused(owner.ask().update_member(set(&owner.id, Role::Viewer)).await, ErrorCode::LastOwner);
    owner.ask().update_member(set(&other.id, Role::Owner)).await.unwrap();
    owner.ask().remove_member(leave).await.unwrap();
    assert_eq!(other.members(&organization).await.len(), 1);
}

async fn the_last_administrator_stays(store: Store) {
    let service = Service::on(&store, |setup| setup).await;
    let one = service.administrator().await;
    let set = |email: &str, administrator| v1::SetAdministratorRequest { email: email.to_owned(), administrator };
    // Neither by themselves nor by an operator.
    refused(one.administer().set_administrator(set(&one.email, false)).await, ErrorCode::LastAdministrator);
    refused(service.admin().set_administrator(set(&one.email, false)).await, ErrorCode::LastAdministrator);
    let other = service.administrator().await;
    let answers = tokio::join!(async { one.administer().set_administrator(set(&one.email, false)).await }, async {
        other.administer().set_administrator(set(&other.email, false)).await
    },);
    let codes = [answers.0, answers.1].map(|answer| answer.err().map(|status| ApiError::from_status(&status).code));
    assert!(codes.contains(&None) && codes.contains(&Some(ErrorCode::LastAdministrator)), "{codes:?}");
    let users = service.admin().list_users(v1::ListUsersRequest {}).await.unwrap().into_inner().data;
    assert_eq!(users.iter().filter(|user| user.administrator).count(), 1);
    let unknown = service.admin().set_administrator(set("nobody@people.example", true)).await;
    refused(unknown, ErrorCode::UserNotFound);
}
