//! Forms that are sent twice, by a reload or a second click, create one thing.

use thesis_proto::v1;

use super::{Customer, everywhere, id_in, is};
use crate::harness::{Service, browser::Origin};

on_both_stores![a_project_is_created_once, a_key_is_created_once];

async fn a_project_is_created_once(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let path = format!("/console/organizations/{}/projects", customer.organization);
    let form = browser.open(&path).await.is(200).form(&path).fill("name", "Twice");
    let (one, other) = tokio::join!(browser.submit(&form), browser.submit(&form));
    let later = browser.submit(&form).await;
    let created = id_in(&later.is(200).path, "prj_");
    for page in [one, other] {
        assert_eq!(id_in(&page.is(200).path, "prj_"), created);
    }
    // Whoever goes back and types something else means another project.
    let another = browser.submit(&form.fill("name", "Once more")).await.is(200);
    assert_ne!(id_in(&another.path, "prj_"), created);
    let projects = customer.owner.projects(&customer.organization).await;
    let named = |name: &str| projects.iter().filter(|project| project.name == name).count();
    assert_eq!((named("Twice"), named("Once more"), projects.len()), (1, 1, 3));
    let acts = customer.owner.audit(&customer.organization).await;
    assert_eq!(acts.iter().filter(|act| act.subject == created).count(), 1);
}

async fn a_key_is_created_once(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let path = format!("/console/projects/{}/keys", customer.project);
    let form = browser.open(&path).await.is(200).form(&path).fill("name", "twice");
    let (one, other) = tokio::join!(browser.submit(&form), browser.submit(&form));
    let raw = one.is(200).word("svc_test_");
    for page in [other, browser.submit(&form).await] {
        assert_eq!(page.is(200).word("svc_test_"), raw);
    }
    everywhere(service, &raw, "the key works", is(200, "")).await;
    // Another visit to the page creates another key.
    let fresh = browser.open(&path).await.is(200).form(&path).fill("name", "twice");
    assert_ne!(browser.submit(&fresh).await.is(200).word("svc_test_"), raw);
    let listing = v1::AccountServiceListKeysRequest { project_id: customer.project.clone() };
    let keys = async || customer.owner.ask().list_keys(listing.clone()).await.unwrap().into_inner().data;
    let ours: Vec<_> = keys().await.into_iter().filter(|key| key.name == "twice").collect();
    assert_eq!(ours.len(), 2);
    // A revoked key is shown to nobody, and its form creates no other one.
    let csrf = browser.csrf().await;
    for key in ours {
        let revoke = format!("{path}/{}/revoke", key.id);
        browser.post(&revoke, &[("csrf", &*csrf)], Origin::Here).await.is(303);
    }
    let refused = browser.submit(&form).await.is(422).says("open it anew");
    assert!(!refused.html.contains(&raw), "{refused}");
    assert_eq!(keys().await.iter().filter(|key| key.name == "twice").count(), 2);
}
