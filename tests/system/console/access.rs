//! Keys: their scopes, and their end.

use super::{Customer, create_key, everywhere, is};
use crate::harness::{Client, Service, browser::Form};

on_both_stores![a_key_has_the_scopes_that_are_ticked, a_revoked_key_is_refused];

async fn a_key_has_the_scopes_that_are_ticked(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let path = format!("/console/projects/{}/keys", customer.project);
    let form = browser.open(&path).await.is(200).form(&path);
    let form = form.fill("name", "narrow").fill("environment", "test").tick("scopes", &["tokens:read"]);
    let raw = browser.submit(&form).await.is(200).word("svc_test_");
    everywhere(service, &raw, "the new key works", is(200, "")).await;
    let me = Client::new(&service.http, Some(&raw)).get("/v1/me").await.ok(200);
    assert_eq!(me["scopes"], serde_json::json!(["tokens:read"]), "{me}");
}

async fn a_revoked_key_is_refused(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    let raw = create_key(&browser, &customer.project, "test").await;
    everywhere(service, &raw, "the new key works", is(200, "")).await;
    let path = format!("/console/projects/{}", customer.project);
    let page = browser.open(&path).await.is(200);
    // There is another key, which was there before.
    let revokes = |form: &Form| form.action.starts_with("/console/keys/") && !form.action.contains(&customer.key);
    let forms: Vec<_> = page.forms().into_iter().filter(revokes).collect();
    assert_eq!(forms.len(), 1, "{page}");
    browser.submit(&forms[0]).await.is(200);
    everywhere(service, &raw, "it was revoked", is(401, "API_KEY_REVOKED")).await;
    let page = browser.open(&path).await.is(200);
    assert_eq!(page.forms().into_iter().filter(revokes).count(), 0, "a key is revoked twice: {page}");
    // Its first call is counted within a minute; the page of it is there before.
    browser.open(&format!("/console/projects/{}/usage?days=7", customer.project)).await.is(200);
}
