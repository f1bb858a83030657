//! Keys: their scopes, and their end.

use super::{Customer, create_key, everywhere, is};
use crate::harness::{Client, Service, browser::Page};

on_both_stores![a_key_has_the_scopes_that_are_ticked, a_revoked_key_is_refused, a_live_key_is_revoked_by_its_name,];

/// The targets of the links that revoke a key on a project's page.
fn revocations(page: &Page) -> Vec<String> {
    let hrefs = page.all("a").filter_map(|link| link.get("href"));
    hrefs.filter(|href| href.ends_with("/revoke")).map(str::to_owned).collect()
}

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
    // There is another key, which was there before.
    let others = |page: &Page| revocations(page).into_iter().filter(|href| !href.contains(&customer.key)).collect();
    let hrefs: Vec<String> = others(&browser.open(&path).await.is(200));
    assert_eq!(hrefs.len(), 1);
    let asked = browser.open(&hrefs[0]).await.is(200).says("refused from now on");
    browser.submit(&asked.form(&hrefs[0])).await.is(200).says("The key is revoked.");
    everywhere(service, &raw, "it was revoked", is(401, "API_KEY_REVOKED")).await;
    let page = browser.open(&path).await.is(200);
    let left: Vec<String> = others(&page);
    assert!(left.is_empty(), "a key is revoked twice: {page}");
    assert_eq!(browser.open(&hrefs[0]).await.is(200).path, path);
    // Its first call is counted within a minute; the page of it is there before.
    browser.open(&format!("/console/projects/{}/usage?days=7", customer.project)).await.is(200);
}

async fn a_live_key_is_revoked_by_its_name(service: &Service) {
    let customer = Customer::new(service).await;
    let browser = service.browser_of(&customer.owner);
    create_key(&browser, &customer.project, "live").await;
    let path = format!("/console/projects/{}", customer.project);
    let page = browser.open(&path).await.is(200);
    let href = revocations(&page).into_iter().find(|href| !href.contains(&customer.key)).unwrap();
    let asked = browser.open(&href).await.is(200);
    for wrong in ["", "another"] {
        let refused = browser.submit(&asked.form(&href).fill("confirm", wrong)).await.is(422);
        assert!(refused.form(&href).field("confirm").is_wrong, "{refused}");
    }
    assert!(revocations(&browser.open(&path).await).contains(&href));
    browser.submit(&asked.form(&href).fill("confirm", "laptop")).await.is(200);
    assert!(!revocations(&browser.open(&path).await).contains(&href));
}
