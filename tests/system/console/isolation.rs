//! Another organization's things do not exist.

use thesis_proto::v1::{self, Role};

use super::{Customer, id_in};
use crate::{
    accounts::factors::add_app,
    harness::{Service, browser::Origin, person::token_of},
};

on_both_stores![
    other_peoples_pages_are_as_unknown_ones,
    visitors_see_nothing,
    a_demand_for_a_factor_closes_no_other_organization,
];

/// A path with ids that nothing has.
fn unknown(path: &str) -> String {
    let mut path = path.to_owned();
    for prefix in ["org_", "prj_", "key_", "inv_"] {
        if path.contains(prefix) {
            path = path.replace(&id_in(&path, prefix), &format!("{prefix}{}", "0".repeat(25)));
        }
    }
    path
}

async fn other_peoples_pages_are_as_unknown_ones(service: &Service) {
    let customer = Customer::new(service).await;
    let (outsider, _) = service.owner().await;
    let browser = service.browser_of(&outsider);
    for path in customer.pages() {
        let (theirs, none) = (browser.get(&path).await.is(404), browser.get(&unknown(&path)).await.is(404));
        assert_eq!(theirs.without_request(), none.without_request(), "{path}");
        assert!(!theirs.html.contains("Hive"), "{theirs}");
    }
    let (csrf, before) = (browser.csrf().await, customer.seen().await);
    for (path, mut fields) in customer.forms(&outsider.id) {
        fields.push(("csrf", &csrf));
        let theirs = browser.post(&path, &fields, Origin::Here).await.is(404);
        let none = browser.post(&unknown(&path), &fields, Origin::Here).await.is(404);
        assert_eq!(theirs.without_request(), none.without_request(), "{path}");
    }
    assert_eq!(customer.seen().await, before);
    let session = customer.owner.account().await.session.unwrap().id;
    let path = |id: &str| format!("/console/account/sessions/{id}/revoke");
    let theirs = browser.post(&path(&session), &[("csrf", &csrf)], Origin::Here).await;
    let none = browser.post(&path(&format!("ses_{}", "0".repeat(32))), &[("csrf", &csrf)], Origin::Here).await;
    assert_eq!((theirs.status, theirs.without_request()), (none.status, none.without_request()));
    assert!(customer.owner.is_signed_in().await);
}

async fn visitors_see_nothing(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser();
    let before = customer.seen().await;
    for path in customer.pages().iter().map(String::as_str).chain(super::ADMINISTRATION.iter().copied()) {
        let answer = browser.get(path).await.is(303);
        assert!(answer.location().unwrap().starts_with("/console/sign-in?next="), "{answer}");
    }
    let csrf = browser.csrf().await;
    for (path, mut fields) in customer.forms(&customer.owner.id) {
        fields.push(("csrf", &csrf));
        let answer = browser.post(&path, &fields, Origin::Here).await;
        let is_led = answer.location().is_some_and(|location| location.starts_with("/console/sign-in"));
        assert!(is_led || [401, 403].contains(&answer.status), "{answer}");
    }
    assert_eq!(customer.seen().await, before);
    // A session that is none is as no session.
    let stranger = service.browser();
    for none in ["ses_usr_0_0", "x", "\""] {
        stranger.set_cookie("session", none);
        assert!(!stranger.is_signed_in().await);
    }
}

async fn a_demand_for_a_factor_closes_no_other_organization(service: &Service) {
    let customer = Customer::new(service).await;
    let (mut member, own) = service.owner().await;
    let project = member.project(&own, "Own").await.id;
    let link = customer.owner.invite(&customer.organization, &member.email, Role::Viewer).await;
    member.accept(token_of(&link)).await.unwrap();
    add_app(&customer.owner).await;
    let request = v1::RequireSecondFactorRequest { organization_id: customer.organization.clone(), required: true };
    customer.owner.ask().require_second_factor(request).await.unwrap();
    let browser = service.browser_of(&member);
    browser.open(&format!("/console/projects/{project}")).await.is(200);
    browser.open(&format!("/console/projects/{}", customer.project)).await.is(403).says("second factor");
}
