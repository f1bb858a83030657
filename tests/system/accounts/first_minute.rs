//! The first minute: a link that makes the first administrator.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use thesis_proto::{
    error::ErrorCode,
    v1::{self, LinkPurpose, Role},
};

use super::AT_ONCE;
use crate::harness::{Client, Service, TEST_KEY, eventually, person::token_of, text};

/// The set-up link that a service names.
fn link(service: &Service) -> String {
    let file = service.processes[0].address("setup_link_file");
    assert!(file.starts_with(service.dir.path().join("data").to_str().unwrap()), "{file}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    fs::read_to_string(file).unwrap().trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_makes_the_first_administrator() {
    let mut service = Service::embedded(|setup| setup);
    let first = link(&service);
    assert!(!service.processes[0].log().contains(token_of(&first)));
    // It stays until it is used.
    service.end(0, "TERM").await;
    service.start_again(0).await;
    let again = link(&service);
    let (mut person, mut late) = (service.person(), service.person());
    let asked = v1::GetLinkRequest { token: token_of(&again).to_owned() };
    let told = person.ask().get_link(asked).await.unwrap().into_inner();
    assert_eq!((told.purpose(), &told.email), (LinkPurpose::SetUp, &None));
    let (email, own) = (Some(person.email.clone()), Some(late.email.clone()));
    let organization = person.accept_as(token_of(&again), email).await.unwrap().unwrap();
    let file = service.processes[0].address("setup_link_file");
    eventually("the used link is removed", AT_ONCE, async || (!Path::new(&file).exists()).then_some(())).await;
    let used = late.accept_as(token_of(&first), own).await.unwrap_err();
    assert_eq!(used.code, ErrorCode::LinkNotFound);

    let account = person.account().await;
    assert!(account.user.unwrap().administrator);
    assert_eq!(account.memberships.iter().map(v1::Membership::role).collect::<Vec<_>>(), [Role::Owner]);
    let me = Client::new(&service.http, Some(TEST_KEY)).get("/v1/me").await.ok(200);
    assert_eq!(text(&me["organization"], "id"), organization.id);
    person.administer().list_users(v1::ListUsersRequest {}).await.unwrap();

    service.end(0, "TERM").await;
    service.start_again(0).await;
    assert!(service.processes[0].ready["setup_link_file"].is_null(), "{}", service.processes[0].ready);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_an_operator_made_an_administrator_there_is_no_link() {
    let mut service = Service::embedded(|setup| setup);
    let link = link(&service);
    service.administrator().await;
    let mut late = service.person();
    let email = Some(late.email.clone());
    let error = late.accept_as(token_of(&link), email).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::LinkNotFound);
    service.end(0, "TERM").await;
    service.start_again(0).await;
    assert!(service.processes[0].ready["setup_link_file"].is_null());
}
