//! The description's examples have the form of real answers, and what else it says by hand is so.

mod asyncapi;
pub(crate) mod errors;
pub(crate) mod frames;
mod rights;
mod schema;

use reqwest::Method;
use serde_json::{Value, json};
use thesis_proto::v1::{Environment, observation::Observed};
use thesis_receipts::Document;

use crate::harness::{
    ALL_SCOPES, Client, Receiver, SOON, Service, eventually,
    ingest::{author, revision},
    rows, text,
};

on_both_stores![
    what_is_read_has_the_form_of_its_example,
    what_is_written_has_the_form_of_its_example,
    what_is_tried_works,
    receipts_have_the_form_of_their_example_which_is_valid,
];

/// Fields that may be left out, besides those of filters.
const OPTIONAL: [&str; 7] = ["stale", "wallet", "test", "documentation", "reference", "openapi", "websocket"];

/// The example of an operation, or of an event, in the service's own description.
async fn example(client: &Client, name: &str) -> Value {
    let document = client.get("/v1/openapi.json").await.ok(200);
    let each = |section: &str| document[section].as_object().unwrap().values().cloned().collect::<Vec<_>>();
    let items = [each("paths"), each("webhooks")].concat();
    let operations = items.iter().flat_map(|item| item.as_object().unwrap().values());
    let found = operations.into_iter().find(|operation| operation["operationId"] == name);
    let operation = found.unwrap_or_else(|| panic!("no operation {name}"));
    let answers = operation["responses"].as_object().unwrap();
    let success = answers.iter().find(|(status, _)| status.starts_with("20")).map(|(_, answer)| answer);
    let content = success.map_or(&operation["requestBody"]["content"], |answer| &answer["content"]);
    let example = content["application/json"]["example"].clone();
    assert!(!example.is_null(), "{name} has no example");
    example
}

/// Whether two values have the same form; an array has that of its first element, and null that of any other.
fn compare(place: &str, example: &Value, real: &Value) {
    match (example, real) {
        (Value::Null, _) | (_, Value::Null) => {}
        (Value::Object(example), Value::Object(real)) => {
            for name in example.keys().chain(real.keys()) {
                match (example.get(name), real.get(name)) {
                    (Some(example), Some(real)) => compare(&format!("{place}.{name}"), example, real),
                    _ => {
                        let may_lack = OPTIONAL.contains(&name.as_str()) || place.ends_with(".filters");
                        assert!(may_lack, "{place}.{name} is on one side only");
                    }
                }
            }
        }
        (Value::Array(example), Value::Array(real)) => {
            if let (Some(example), Some(real)) = (example.first(), real.first()) {
                compare(&format!("{place}[]"), example, real);
            }
        }
        (Value::String(_), Value::String(_))
        | (Value::Number(_), Value::Number(_))
        | (Value::Bool(_), Value::Bool(_)) => {}
        _ => panic!("{place}: {example} is not of the form of {real}"),
    }
}

async fn holds(client: &Client, operation: &str, real: &Value) {
    compare(operation, &example(client, operation).await, real);
}

async fn what_is_read_has_the_form_of_its_example(service: &Service) {
    let client = service.test_client().await;
    let thesis = rows(&client.get("/v1/theses?token=RUN&limit=1").await.ok(200))[0].clone();
    let event = rows(&client.get("/v1/events?types=thesis.created&limit=1").await.ok(200))[0].clone();
    for (operation, path) in [
        ("getDiscovery", "/v1".to_owned()),
        ("getMe", "/v1/me".to_owned()),
        ("getUsage", "/v1/me/usage".to_owned()),
        ("getStatus", "/v1/status".to_owned()),
        ("findProfile", "/v1/profiles?handle=sbx_runner".to_owned()),
        ("getProfile", "/v1/profiles/@sbx_runner".to_owned()),
        ("listTheses", "/v1/theses?token=RUN&limit=2".to_owned()),
        ("getThesis", format!("/v1/theses/{}", text(&thesis, "id"))),
        ("getToken", "/v1/tokens/RUN".to_owned()),
        ("getTokenActivity", "/v1/tokens/RUN/activity?recent=1".to_owned()),
        ("getThesisVelocity", "/v1/tokens/RUN/thesis-velocity".to_owned()),
        ("listEvents", "/v1/events?types=thesis.created&limit=2".to_owned()),
        ("getEvent", format!("/v1/events/{}", text(&event, "id"))),
    ] {
        let real = client.get(&path).await.ok(200);
        holds(&client, operation, &real).await;
    }
    let found = client.search("/v1/search?q=run&limit=1").await.ok(200);
    holds(&client, "search", &found).await;
    holds(&client, "searchSemantically", &found).await;
    let asked = json!({
        "handle": thesis["profile"]["handle"], "token": thesis["token"]["id"], "created_after": thesis["created_at"],
    });
    let verified = client.post("/v1/verify/thesis", &asked).await.ok(200);
    holds(&client, "verifyThesis", &verified).await;
}

async fn what_is_written_has_the_form_of_its_example(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = json!({
        "url": receiver.url, "events": ["thesis.created"], "filters": {"token": ["EXAMPLE"]}, "description": "for people",
    });
    let webhook = client.post("/v1/webhooks", &webhook).await.ok(201);
    holds(&client, "createWebhook", &webhook).await;
    let path = format!("/v1/webhooks/{}", text(&webhook, "id"));
    holds(&client, "getWebhook", &client.get(&path).await.ok(200)).await;
    holds(&client, "listWebhooks", &client.get("/v1/webhooks").await.ok(200)).await;
    holds(&client, "updateWebhook", &client.patch(&path, &json!({"status": "enabled"})).await.ok(200)).await;
    let rotated = client.post(&format!("{path}/rotate-secret"), &json!({})).await.ok(200);
    holds(&client, "rotateWebhookSecret", &rotated).await;

    let made =
        client.post("/v1/test/theses", &json!({"handle": "writer", "token": "EXAMPLE", "text": "x"})).await.ok(201);
    holds(&client, "createTestThesis", &made).await;
    let received = receiver.delivery_of(&made["event"]).await;
    holds(&client, "onThesisCreated", &received.event()).await;
    for (operation, event_type) in
        [("onTokenActivity", "token.activity"), ("onTokenThesisVelocity", "token.thesis_velocity")]
    {
        let path = format!("/v1/events?types={event_type}&token=EXAMPLE");
        let event = eventually("a derived event", SOON, async || client.all(&path).await.into_iter().next()).await;
        holds(&client, operation, &event).await;
    }

    let test = client.post(&format!("{path}/test"), &json!({})).await.ok(202);
    holds(&client, "testWebhook", &test).await;
    let log = format!("{path}/deliveries");
    let over = eventually("the test send arrives", SOON, async || {
        let page = client.get(&log).await.ok(200);
        rows(&page).iter().find(|row| row["id"] == test["id"] && row["status"] == "delivered").map(|_| page.clone())
    })
    .await;
    holds(&client, "listDeliveries", &over).await;
    let sent = receiver.received().into_iter().find(|sent| sent.header("service-delivery-id") == text(&test, "id"));
    holds(&client, "onWebhookTest", &sent.unwrap().event()).await;
    let replay = format!("/v1/webhook-deliveries/{}/replay", text(&test, "id"));
    holds(&client, "replayDelivery", &client.post(&replay, &json!({})).await.ok(202)).await;
    let since = json!({"since": text(&test, "created_at")});
    let begun = client.post(&format!("{path}/replay"), &since).await.ok(202);
    holds(&client, "startWebhookReplay", &begun).await;
    holds(&client, "getWebhookInsight", &client.get(&format!("{path}/insight")).await.ok(200)).await;
    let ticket = client.send(client.request(Method::POST, "/v1/stream/tickets")).await.ok(201);
    holds(&client, "createStreamTicket", &ticket).await;
    holds(&client, "deleteWebhook", &client.delete(&path).await.ok(200)).await;

    let alert = json!({"name": "busy", "token": "EXAMPLE", "metric": "thesis_count_24h", "above": 1, "for": "0s"});
    let alert = client.post("/v1/alerts", &alert).await.ok(201);
    holds(&client, "createAlert", &alert).await;
    let path = format!("/v1/alerts/{}", text(&alert, "id"));
    holds(&client, "getAlert", &client.get(&path).await.ok(200)).await;
    holds(&client, "listAlerts", &client.get("/v1/alerts").await.ok(200)).await;
    for (operation, event_type, change) in [
        ("onAlertFiring", "alert.firing", json!({"above": 0})),
        ("onAlertResolved", "alert.resolved", json!({"above": 9})),
    ] {
        holds(&client, "updateAlert", &client.patch(&path, &change).await.ok(200)).await;
        let events = format!("/v1/events?types={event_type}");
        let event = eventually("an event", SOON, async || client.all(&events).await.into_iter().next()).await;
        holds(&client, operation, &event).await;
    }
    holds(&client, "deleteAlert", &client.delete(&path).await.ok(200)).await;
}

async fn what_is_tried_works(service: &Service) {
    let client = service.test_client().await;
    let document = client.get("/v1/openapi.json").await.ok(200);
    let mut tried = 0;
    // Wallets are not enabled here.
    let items = document["paths"].as_object().unwrap().iter().filter(|(path, _)| !path.ends_with("/wallets"));
    for (path, item) in items {
        let parameters = item["get"]["parameters"].as_array().into_iter().flatten();
        let mut target = path.clone();
        for parameter in parameters.filter(|parameter| parameter["example"].is_string()) {
            let (name, value) = (text(parameter, "name"), text(parameter, "example"));
            match text(parameter, "in") {
                "path" => target = target.replace(&format!("{{{name}}}"), value),
                _ => target = format!("{target}?{name}={value}"),
            }
        }
        if target == *path || target.contains('{') {
            continue;
        }
        tried += 1;
        let answer = if path == "/v1/search" { client.search(&target).await } else { client.get(&target).await };
        answer.ok(200);
    }
    assert_eq!(tried, 8);
    let claim = &document["paths"]["/v1/verify/thesis"]["post"]["requestBody"]["content"]["application/json"];
    let verified = client.post("/v1/verify/thesis", &claim["example"]).await.ok(200);
    assert_eq!(verified["verified"], true, "{verified}");
}

async fn receipts_have_the_form_of_their_example_which_is_valid(service: &Service) {
    let client = service.test_client().await;
    let thesis = rows(&client.get("/v1/theses?token=RUN&limit=1").await.ok(200))[0].clone();
    let path = format!("/v1/theses/{}/receipt", text(&thesis, "id"));
    let signed = eventually("the log is signed", SOON, async || {
        Some(client.get(&path).await).filter(|answer| answer.status != 409)
    });
    holds(&client, "getReceipt", &signed.await.ok(200)).await;
    holds(&client, "listLogKeys", &client.get("/v1/log/keys").await.ok(200)).await;
    // Whoever builds a verifier tries it on the example.
    let (keys, receipt) = (example(&client, "listLogKeys").await, example(&client, "getReceipt").await);
    let trusted = text(&rows(&keys)[0], "key").parse().unwrap();
    let document = Document::parse(receipt.to_string().as_bytes()).unwrap();
    assert!(document.verify(&[trusted], &[]).unwrap().is_trusted);
}

#[tokio::test]
async fn wallets_and_changed_profiles_have_the_form_of_their_examples() {
    let service = Service::embedded(|setup| setup.set("WALLETS_API_ENABLED", "true"));
    let project = service.project().await;
    let client = project.key(Environment::Test, &[ALL_SCOPES, &["wallets:read"][..]].concat()).await.client;
    let wallet = thesis_proto::v1::ObservedWallet {
        address: "0x1".to_owned(),
        network: "ethereum".to_owned(),
        observed_at: Some(thesis_proto::time::from_millis(crate::harness::now_ms() - 5_000)),
    };
    let mut told = author("u1", "rich");
    told.wallets = vec![wallet];
    service.learn(&project.dataset(), revision(1, Observed::Profile(told.clone()))).await;
    let listed = client.get("/v1/profiles/rich/wallets").await.ok(200);
    holds(&client, "getProfileWallets", &listed).await;
    told.bio = Some("About".to_owned());
    service.learn(&project.dataset(), revision(2, Observed::Profile(told))).await;
    let events = client.all("/v1/events?types=profile.updated").await;
    holds(&client, "onProfileUpdated", &events[0]).await;
}
