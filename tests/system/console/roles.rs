//! What each role sees and may do.

use thesis_proto::v1::Role;

use super::{ADMINISTRATION, Customer};
use crate::harness::{
    Person, Service,
    browser::{Origin, Page},
};

on_both_stores![a_viewer_changes_nothing, a_developer_does_some, customers_administer_nothing];

/// The forms of a page that change something, except those to go: out of the session or out of the organization.
fn changes(page: &Page, person: &Person) -> Vec<String> {
    let leave = format!("/members/{}/remove", person.id);
    let forms = page.forms().into_iter().filter(|form| form.is_post && form.action != "/console/sign-out");
    forms.map(|form| form.action).filter(|action| !action.ends_with(&leave)).collect()
}

async fn a_viewer_changes_nothing(service: &Service) {
    let customer = Customer::new(service).await;
    let viewer = service.member(&customer.owner, &customer.organization, Role::Viewer).await;
    let browser = service.browser_of(&viewer);
    for path in customer.pages() {
        let page = browser.open(&path).await;
        if path.ends_with("/audit") {
            page.is(403);
            continue;
        }
        let page = page.is(200);
        assert!(changes(&page, &viewer).is_empty(), "{page}");
    }
    // Neither with forms that no page offers.
    let (csrf, before) = (browser.csrf().await, customer.seen().await);
    for (path, mut fields) in customer.forms(&viewer.id) {
        fields.push(("csrf", &csrf));
        let answer = browser.post(&path, &fields, Origin::Here).await.is(403);
        // Of keys viewers see the beginning.
        let letters = |rest: &str| rest.chars().take_while(char::is_ascii_alphanumeric).count();
        let is_shown = answer.html.split("svc_test_").skip(1).any(|rest| letters(rest) > 8);
        assert!(!answer.text().is_empty() && !is_shown, "{answer}");
    }
    assert_eq!(customer.seen().await, before);
}

async fn a_developer_does_some(service: &Service) {
    let customer = Customer::new(service).await;
    let developer = service.member(&customer.owner, &customer.organization, Role::Developer).await;
    let browser = service.browser_of(&developer);
    let (organization, project) = (&customer.organization, &customer.project);
    super::create_project(&browser, organization, "Another").await;
    let page = browser.open(&format!("/console/organizations/{organization}/settings")).await.is(200);
    assert!(page.find_form(&format!("/console/organizations/{organization}/name")).is_none(), "{page}");
    let page = browser.open(&format!("/console/organizations/{organization}/members")).await.is(200);
    assert!(changes(&page, &developer).is_empty(), "{page}");
    let archive = format!("/console/projects/{project}/archive");
    let page = browser.open(&format!("/console/projects/{project}/settings")).await.is(200);
    assert!(!page.html.contains(&archive), "{page}");
    // A visitor who types the address is redirected.
    browser.get(&archive).await.is(303);
    super::create_key(&browser, project, "test").await;
    // An owner archives; then nothing is made any more.
    let owner = service.browser_of(&customer.owner);
    let page = owner.open(&archive).await.is(200);
    owner.submit(&page.form(&archive).fill("confirm", "Bee")).await.is(422);
    owner.submit(&page.form(&archive).fill("confirm", "Hive")).await.is(200).says("archived");
    let page = browser.open(&format!("/console/projects/{project}/keys")).await.is(200);
    assert!(page.find_form(&format!("/console/projects/{project}/keys")).is_none(), "{page}");
}

async fn customers_administer_nothing(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let csrf = browser.csrf().await;
    let page = browser.open(&format!("/console/organizations/{}", customer.organization)).await.is(200);
    assert!(!page.html.contains("/console/administration"), "{page}");
    for path in ADMINISTRATION {
        browser.open(path).await.is(404);
    }
    let before = customer.seen().await;
    for decision in ["approve", "refuse", "withdraw"] {
        let path = format!("/console/administration/projects/{}/{decision}", customer.project);
        let answer = browser.post(&path, &[("csrf", &csrf), ("reason", "x")], Origin::Here).await;
        assert!([403, 404].contains(&answer.status), "{answer}");
    }
    let invite = [("csrf", csrf.as_str()), ("email", "own@people.example"), ("administrator", "true")];
    let answer = browser.post("/console/administration/users/invite", &invite, Origin::Here).await;
    assert!([403, 404].contains(&answer.status) && !answer.html.contains("/console/links/"), "{answer}");
    assert_eq!(customer.seen().await, before);
    // An administrator's browser does it with no token of a customer.
    let administrator = service.browser_of(&service.administrator().await);
    let path = format!("/console/administration/projects/{}/approve", customer.project);
    administrator.post(&path, &[("csrf", &csrf)], Origin::Here).await.is(403);
    assert_eq!(customer.seen().await, before);
}
