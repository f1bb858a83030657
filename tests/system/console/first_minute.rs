//! The first minutes: a link makes the first administrator, and a customer comes from sign-up to an answer.

use std::fs;

use thesis_proto::v1::{Membership, Role};

use super::{PASSWORD, create_key, create_project, everywhere, id_in, is, project_in};
use crate::harness::{Client, Service, person::token_of};

on_both_stores![sign_up_leads_to_the_first_call];

// It has nothing to do with the store.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_makes_the_administrator() {
    let service = Service::embedded(|setup| setup);
    let link = fs::read_to_string(service.processes[0].address("setup_link_file")).unwrap();
    let path = format!("/console/links/{}", token_of(link.trim()));
    let browser = service.browser();
    // Looking does not use it, and a wrong password neither.
    let form = browser.open(&path).await.is(200).form(&path).fill("email", "Root@People.example");
    let wrong = browser.submit(&form.fill("password", "short")).await.is(422);
    assert!(browser.session().is_none());
    let form = wrong.form(&path);
    assert_eq!(form.field("email").value, "Root@People.example");
    browser.submit(&form.fill("password", PASSWORD)).await.is(200);
    for page in super::ADMINISTRATION {
        browser.open(page).await.is(200);
    }
    service.browser().open(&path).await.is(404);

    // An administrator invites another one.
    let users = browser.open("/console/administration/users").await;
    let invite = users.form("/console/administration/users/invite").fill("email", "second@people.example");
    let invited = browser.submit(&invite).await.is(200);
    let path = format!("/console/links/{}", invited.link_token());
    let second = service.browser();
    let form = second.open(&path).await.is(200).form(&path).fill("password", PASSWORD);
    second.submit(&form).await.is(200);
    second.open("/console/administration").await.is(404);
}

async fn sign_up_leads_to_the_first_call(service: &Service) {
    let person = service.person();
    let browser = service.browser();
    // Who is not signed in is led to the sign-in page, and from there to the sign-up page.
    let page = browser.open("/console").await.is(200);
    assert!(page.path.starts_with("/console/sign-in"), "{page}");
    assert!(page.all("a").any(|link| link.get("href").is_some_and(|href| href.starts_with("/console/sign-up"))));
    let page = browser.sign_up(&person.email, PASSWORD, "Acme").await.is(200).says("Acme");
    let organization = id_in(&page.path, "org_");
    // From then on it is the first page.
    assert_eq!(browser.open("/console").await.is(200).path, format!("/console/organizations/{organization}"));
    let page = create_project(&browser, &organization, "Hive").await.says("Hive");
    let project = project_in(&page);
    browser.open(&format!("/console/projects/{project}")).await.is(200).says("Hive");

    let raw = create_key(&browser, &project, "test").await;
    everywhere(service, &raw, "the new key works", is(200, "")).await;
    let me = Client::new(&service.http, Some(&raw)).get("/v1/me").await.ok(200);
    assert_eq!(me["organization"]["id"], organization);
    assert_eq!(me["project"]["id"], project);

    // The same account is seen over gRPC.
    let mut same = service.person();
    (same.email, same.password) = (person.email, PASSWORD.to_owned());
    same.sign_in().await.unwrap();
    let roles: Vec<Role> = same.account().await.memberships.iter().map(Membership::role).collect();
    assert_eq!(roles, [Role::Owner]);
}
