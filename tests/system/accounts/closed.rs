//! `SVC_SIGN_UP=invited`: only who is invited may have an account.

use thesis_proto::{error::ErrorCode, v1::Role};

use crate::harness::Service;

// It has nothing to do with the store.
#[tokio::test]
async fn only_who_is_invited_signs_up() {
    let service = Service::embedded(|setup| setup.set("SVC_SIGN_UP", "invited"));
    let error = service.person().sign_up("Acme").await.unwrap_err();
    assert_eq!(error.code, ErrorCode::SignUpClosed);
    // An administrator invites the first person, and they invite others.
    let administrator = service.administrator().await;
    let request = thesis_proto::v1::AccountServiceCreateOrganizationRequest { name: "Acme".to_owned() };
    let made = administrator.ask().create_organization(request).await.unwrap().into_inner();
    let organization = made.organization.unwrap().id;
    let member = service.member(&administrator, &organization, Role::Owner).await;
    service.member(&member, &organization, Role::Viewer).await;
    assert_eq!(member.members(&organization).await.len(), 3);
}
