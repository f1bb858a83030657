//! Addresses that stay in a browser although they have no page: those of forms that failed, and those with a slash more.

use super::Customer;
use crate::harness::{Service, browser::Browser};

on_both_stores![a_forms_address_leads_to_its_page, a_slash_more_is_no_other_address];

async fn leads(browser: &Browser, from: &str, to: &str) {
    let answer = browser.get(from).await.is(303);
    assert_eq!(answer.location().as_deref(), Some(to), "{from}");
}

async fn a_forms_address_leads_to_its_page(service: &Service) {
    let customer = Customer::new(service).await;
    let (other, _) = service.owner().await;
    let (owner, other) = (service.browser_of(&customer.owner), service.browser_of(&other));
    let page = format!("/console/projects/{}", customer.project);
    let settings = format!("{page}/settings");
    for (form, to) in [("name", &settings), ("live-access", &page), ("keys/key_1/revoke", &page)] {
        let address = format!("{page}/{form}");
        leads(&owner, &address, to).await;
        other.get(&address).await.is(404);
    }
    let home = format!("/console/organizations/{}", customer.organization);
    leads(&owner, &format!("{home}/name"), &format!("{home}/settings")).await;
    leads(&owner, &format!("{home}/members/usr_1/remove"), &format!("{home}/members")).await;
    leads(&owner, "/console/account/sessions/ses_1/revoke", "/console/account").await;
    leads(&owner, "/console/account/confirmation", "/console/account").await;
    leads(&owner, "/console/account/factors/totp/remove", "/console/account/factors").await;
    leads(&owner, "/console/sign-out", &format!("/console/organizations/{}", customer.organization)).await;
    assert!(owner.is_signed_in().await);

    let administrator = service.browser_of(&service.administrator().await);
    let project = format!("/console/administration/projects/{}", customer.project);
    for (address, page) in [
        (format!("{project}/approve"), "/console/administration"),
        (format!("{project}/refuse"), "/console/administration"),
        (format!("{project}/withdraw"), "/console/administration"),
        (
            format!("/console/administration/organizations/{}/plan", customer.organization),
            "/console/administration/organizations",
        ),
        ("/console/administration/users/invite".to_owned(), "/console/administration/users"),
        ("/console/administration/users/administrator".to_owned(), "/console/administration/users"),
        ("/console/administration/users/reset-link".to_owned(), "/console/administration/users"),
        ("/console/administration/users/confirm".to_owned(), "/console/administration/users"),
    ] {
        leads(&administrator, &address, page).await;
        owner.get(&address).await.is(404);
    }
}

async fn a_slash_more_is_no_other_address(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    for page in customer.pages() {
        let (path, query) =
            page.split_once('?').map_or((page.as_str(), String::new()), |(path, query)| (path, format!("?{query}")));
        let answer = browser.get(&format!("{path}/{query}")).await.is(308);
        assert_eq!(answer.location().as_deref(), Some(page.as_str()));
    }
}
