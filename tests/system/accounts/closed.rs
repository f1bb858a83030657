//! `SVC_SIGN_UP=invited`: only people that an administrator invited get an account.

use thesis_proto::{
    error::ErrorCode,
    v1::{self, Role},
};

use crate::harness::{Person, Service, person::token_of};

/// An organization of an administrator.
async fn found(administrator: &Person) -> String {
    let request = v1::AccountServiceCreateOrganizationRequest { name: "Acme".to_owned() };
    administrator.ask().create_organization(request).await.unwrap().into_inner().organization.unwrap().id
}

// It has nothing to do with the store.
#[tokio::test]
async fn people_get_an_account_by_an_administrators_invitation_only() {
    let service = Service::embedded(|setup| setup.set("SVC_SIGN_UP", "invited"));
    let error = service.person().sign_up("Acme").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SignUpClosed);
    let administrator = service.administrator().await;
    let organization = found(&administrator).await;
    let member = service.member(&administrator, &organization, Role::Owner).await;
    assert!(administrator.account().await.invites_strangers && !member.account().await.invites_strangers);

    // The invitation of an owner who is no administrator lets in people who have an account, and no strangers.
    let mut stranger = service.person();
    let link = member.invite(&organization, &stranger.email, Role::Viewer).await;
    let error = stranger.accept(token_of(&link)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SignUpClosed);
    let request = v1::CreateUserRequest { email: stranger.email.clone(), administrator: false };
    let created = service.admin().create_user(request).await.unwrap().into_inner();
    stranger.accept(token_of(&created.link)).await.unwrap();
    stranger.accept(token_of(&link)).await.unwrap();
    assert_eq!(member.members(&organization).await.len(), 3);
}

#[tokio::test]
async fn owners_invite_strangers_where_that_is_allowed() {
    let service = Service::embedded(|setup| setup.set("SVC_SIGN_UP", "invited").set("SVC_INVITE_STRANGERS", "true"));
    let administrator = service.administrator().await;
    let organization = found(&administrator).await;
    let member = service.member(&administrator, &organization, Role::Owner).await;
    assert!(member.account().await.invites_strangers);
    service.member(&member, &organization, Role::Viewer).await;
    assert_eq!(member.members(&organization).await.len(), 3);
}
