//! Requests that another site, or another person, makes a browser send.

use super::{Customer, PASSWORD};
use crate::harness::{
    Service,
    browser::{Browser, Origin},
};

on_both_stores![forged_forms_change_nothing, forged_sign_ins_begin_nothing, looking_changes_nothing];

/// Sends a form in every forged way; each must be refused.
async fn forge(browser: &Browser, path: &str, fields: &[(&str, &str)], own: &str, others: &[&str]) {
    let with = |csrf: &'static str| [fields, &[("csrf", csrf)]].concat();
    browser.post(path, fields, Origin::Here).await.is(403);
    for wrong in ["", "x", "00000000000000000000000000000000000000000000000000000000000000000"] {
        browser.post(path, &with(wrong), Origin::Here).await.is(403);
    }
    for &other in others {
        browser.post(path, &[fields, &[("csrf", other)]].concat(), Origin::Here).await.is(403);
    }
    // Another site that has somehow learned the token.
    let right = [fields, &[("csrf", own)]].concat();
    for origin in ["https://evil.example", "null", "http://127.0.0.1:1", "http://127.0.0.1.evil.example"] {
        browser.post(path, &right, Origin::Other(origin)).await.is(403);
    }
}

async fn forged_forms_change_nothing(service: &Service) {
    let customer = Customer::new(service).await;
    let (attacker, _) = service.owner().await;
    let second = service.browser();
    second.sign_in(&customer.owner.email, &customer.owner.password).await.is(200);
    let browser = service.browser_of(&customer.owner);
    let own = browser.csrf().await;
    // Another person's, and another session's of the same person.
    let others = [service.browser_of(&attacker).csrf().await, second.csrf().await];
    let others = [others[0].as_str(), others[1].as_str()];
    assert!(!others.contains(&own.as_str()));

    let before = customer.seen().await;
    for (path, fields) in customer.forms(&attacker.id) {
        forge(&browser, &path, &fields, &own, &others).await;
    }
    let password = [("current_password", customer.owner.password.as_str()), ("password", "a password of the attacker")];
    let session = customer.owner.account().await.session.unwrap().id;
    forge(&browser, "/console/account", &password, &own, &others).await;
    forge(&browser, &format!("/console/account/sessions/{session}/revoke"), &[], &own, &others).await;
    forge(&browser, "/console/organizations/new", &[("name", "Forged")], &own, &others).await;
    forge(&browser, "/console/sign-out", &[], &own, &others).await;
    assert_eq!(customer.seen().await, before);
    let account = customer.owner.account().await;
    assert_eq!(account.memberships.len(), 1);
    assert!(browser.is_signed_in().await && second.is_signed_in().await);

    let administrator = service.browser_of(&service.administrator().await);
    let own = administrator.csrf().await;
    for decision in ["approve", "refuse", "withdraw"] {
        let path = format!("/console/administration/projects/{}/{decision}", customer.project);
        forge(&administrator, &path, &[("reason", "forged")], &own, &others).await;
    }
    assert_eq!(customer.seen().await, before);
    // The right token without an origin is what an old browser sends.
    let rename = format!("/console/projects/{}/name", customer.project);
    let own = browser.csrf().await;
    let answer = browser.post(&rename, &[("csrf", &own), ("name", "Renamed")], Origin::Untold).await;
    assert_eq!(answer.status, 303, "{answer}");
    assert_eq!(customer.owner.projects(&customer.organization).await[0].name, "Renamed");
}

async fn forged_sign_ins_begin_nothing(service: &Service) {
    let (person, _) = service.owner().await;
    let (browser, other) = (service.browser(), service.browser());
    let (own, theirs) = (browser.csrf().await, other.csrf().await);
    assert_ne!(own, theirs);
    let fields = [("email", person.email.as_str()), ("password", person.password.as_str())];
    forge(&browser, "/console/sign-in", &fields, &own, &[&theirs]).await;
    let new = [("email", "forged@people.example"), ("password", PASSWORD), ("organization_name", "Forged")];
    forge(&browser, "/console/sign-up", &new, &own, &[&theirs]).await;
    forge(&browser, "/console/forgot", &fields[..1], &own, &[&theirs]).await;
    // Neither without any cookie.
    let bare = service.browser();
    bare.post("/console/sign-in", &[&fields[..], &[("csrf", own.as_str())]].concat(), Origin::Here).await.is(403);
    assert!(browser.session().is_none() && bare.session().is_none());
    assert_eq!(person.sessions().await.len(), 1);
}

async fn looking_changes_nothing(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let before = customer.seen().await;
    for (path, fields) in customer.forms(&customer.owner.id) {
        let query: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let page = browser.get(&format!("{path}?{}", query.join("&"))).await;
        // A page, the way to one, or nothing.
        assert!([200, 303, 404, 405].contains(&page.status), "{page}");
    }
    for path in ["/console/sign-out", "/console/administration/users/invite"] {
        let page = browser.get(path).await;
        assert!([303, 404, 405].contains(&page.status), "{page}");
    }
    assert_eq!(customer.seen().await, before);
    assert!(browser.is_signed_in().await);
}
