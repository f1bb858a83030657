//! Alerts in the console.

use thesis_proto::v1::{self, Environment};

use super::Customer;
use crate::harness::{
    Client, SOON, Service,
    browser::{Browser, Origin, Page},
    eventually,
    person::new_key,
    text,
};

on_both_stores![
    an_alert_is_made_changed_and_deleted,
    what_is_wrong_stands_beside_its_field,
    a_chart_shows_a_rule_before_it_is_created,
];

/// The list of alerts of a customer's test environment.
fn list_of(customer: &Customer) -> String {
    format!("/console/projects/{}/test/alerts", customer.project)
}

/// A client that may do everything with a customer's alerts in the test environment.
async fn client_of(service: &Service, customer: &Customer) -> Client {
    let scopes = ["alerts:write", "theses:read", "events:read"].map(str::to_owned).to_vec();
    let request = v1::AccountServiceCreateKeyRequest { scopes, ..new_key(&customer.project, Environment::Test) };
    let made = customer.owner.ask().create_key(request).await.unwrap().into_inner();
    service.client(&made.key)
}

/// Creates an alert over a token of the sandbox; gives the path of its page.
async fn create(browser: &Browser, list: &str, client: &Client) -> String {
    let form = browser.open(&format!("{list}/new")).await.is(200).form(list);
    let form = form.fill("name", "Für Menschen").fill("token", " $RUN ").fill("threshold", "1000000");
    let page = browser.submit(&form.fill("recover", "1000").fill("for", "5m")).await.is(200);
    page.says("The alert is created.");
    let kept = client.all("/v1/alerts").await;
    assert_eq!((kept.len(), text(&kept[0], "name"), text(&kept[0], "for")), (1, "Für Menschen", "5m"));
    format!("{list}/{}", text(&kept[0], "id"))
}

async fn an_alert_is_made_changed_and_deleted(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let client = client_of(service, &customer).await;
    browser.open(&list).await.is(200).says("There are no alerts yet.");
    let path = create(&browser, &list, &client).await;
    let page = browser.open(&path).await.is(200).says("The last 24 hours").says("It has not fired lately.");
    assert_eq!(page.html.matches("<line ").count(), 2, "both thresholds are drawn");
    browser.open(&list).await.is(200).says("Für Menschen").says("thesis_count_5m above 1000000, recovers at 1000");

    // It fires at once with this rule.
    let form = page.form(&path).fill("threshold", "-1").fill("recover", "").fill("for", "");
    browser.submit(&form).await.is(200).says("The alert is saved.");
    eventually("the alert fires", SOON, async || {
        let events = client.all("/v1/events?types=alert.firing").await;
        (!events.is_empty()).then_some(())
    })
    .await;
    let page = browser.open(&path).await.is(200).says("Firing").says("alert.firing");
    let form = page.form(&format!("{path}/delete"));
    browser.submit(&form).await.is(200).says("The alert is deleted.").says("There are no alerts yet.");
    browser.open(&path).await.is(404);
}

async fn what_is_wrong_stands_beside_its_field(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let form = browser.open(&format!("{list}/new")).await.is(200).form(&list);
    let form = form.fill("name", "x").fill("token", "NOSUCHTOKEN").fill("threshold", "5");
    let page = browser.submit(&form).await.is(422);
    assert!(page.form(&list).field("token").is_wrong);
    let form = page.form(&list).fill("token", "$RUN").fill("threshold", "many").fill("for", "8d");
    let page = browser.submit(&form).await.is(422);
    for name in ["threshold", "for"] {
        assert!(page.form(&list).field(name).is_wrong, "{name}");
    }
}

async fn a_chart_shows_a_rule_before_it_is_created(service: &Service) {
    let customer = Customer::new(service).await;
    let (browser, list) = (service.browser_of(&customer.owner), list_of(&customer));
    let new = format!("{list}/new");
    let drawn = |page: &Page| ["class=\"requests\"", "<line "].map(|element| page.html.matches(element).count());
    let page = browser.open(&new).await.is(200);
    assert_eq!(drawn(&page), [0, 0], "{page}");
    // A token is enough for the counts, by which people choose a threshold.
    let page = browser.submit(&page.form(&new).fill("token", "$RUN")).await.is(200).says("The last 24 hours");
    assert_eq!(drawn(&page), [24, 0], "{page}");
    let form = page.form(&new).fill("name", "Soon").fill("metric", "unique_authors_24h");
    let page = browser.submit(&form.fill("threshold", "5000").fill("recover", "4000")).await.is(200);
    assert_eq!(drawn(&page), [24, 2], "{page}");
    assert!(page.html.contains("Threshold: 5000") && page.html.contains("Recovery: 4000"), "{page}");
    for (field, token, threshold) in [("threshold", "$RUN", "many"), ("token", "NOSUCHTOKEN", "5"), ("token", " ", "5")]
    {
        let form = page.form(&new).fill("token", token).fill("threshold", threshold);
        let wrong = browser.submit(&form).await.is(422);
        assert!(wrong.form(&new).field(field).is_wrong && drawn(&wrong) == [0, 0], "{field}: {wrong}");
    }
    // Members who may not create alerts get no chart, whatever they send.
    let viewer = service.member(&customer.owner, &customer.organization, v1::Role::Viewer).await;
    let viewer = service.browser_of(&viewer);
    let csrf = viewer.csrf().await;
    let refused = viewer.post(&new, &[("csrf", &*csrf), ("token", " ")], Origin::Here).await.is(200);
    assert_eq!(drawn(&refused.says("Viewers cannot create alerts.")), [0, 0]);
    // A chart creates nothing, and the form on its page still has the typed rule.
    let client = client_of(service, &customer).await;
    assert!(client.all("/v1/alerts").await.is_empty());
    browser.submit(&page.form(&list)).await.is(200).says("The alert is created.");
    let kept = client.all("/v1/alerts").await;
    assert_eq!((text(&kept[0], "name"), text(&kept[0], "metric")), ("Soon", "unique_authors_24h"));
}
