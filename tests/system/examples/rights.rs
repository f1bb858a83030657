//! Each operation asks for the scope that its description names, and counts in the rate class that it names.

use serde_json::Value;
use thesis_proto::{names, v1::Environment};
use tokio_tungstenite::tungstenite::Error;

use crate::harness::{Client, Service, Socket, text};

/// What an operation's description says: its method, a path without its resource, the scope and the rate class.
struct Told {
    method: String,
    path: String,
    scope: Option<String>,
    class: String,
}

/// The operations that need a key.
fn operations(document: &Value) -> Vec<Told> {
    let mut all = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            // What is switched off is refused before anybody's rights are looked at.
            if operation["security"].as_array().unwrap().is_empty() || path == "/v1/search/semantic" {
                continue;
            }
            let (_, told) = text(operation, "description").split_once("\n\nScope: ").unwrap();
            let (scope, rest) = told.split_once(". Rate class: `").unwrap();
            let (class, _) = rest.split_once('`').unwrap();
            let scope = (scope != "none, any key may").then(|| scope.trim_matches('`').to_owned());
            // The unknown parameter keeps a stream from being opened.
            let path = path.replace("{id}", "x").replace("{ref}", "x") + "?zzz=1";
            all.push(Told { method: method.to_uppercase(), path, scope, class: class.to_owned() });
        }
    }
    all
}

/// The status, the `RateLimit-Policy` and the message of the answer.
async fn ask(client: &Client, told: &Told) -> (u16, String, String) {
    if told.path.starts_with("/v1/stream?") {
        let header = ("authorization", format!("Bearer {}", client.key()));
        let opened = Socket::try_open(&format!("{}{}", client.base(), told.path), &[header]).await;
        let Err(Error::Http(refused)) = opened else { panic!("{} opens", told.path) };
        let body: Value = serde_json::from_slice(refused.body().as_deref().unwrap_or_default()).unwrap();
        let policy = refused.headers()["ratelimit-policy"].to_str().unwrap().to_owned();
        return (refused.status().as_u16(), policy, text(&body["error"], "message").to_owned());
    }
    let answer = client.send(client.request(told.method.parse().unwrap(), &told.path)).await;
    let error = answer.json()["error"].take();
    (answer.status, answer.header("ratelimit-policy").to_owned(), text(&error, "message").to_owned())
}

#[tokio::test]
async fn scopes_and_rate_classes_are_as_described() {
    let service = Service::embedded(|setup| setup.set("WALLETS_API_ENABLED", "true"));
    let project = service.project().await;
    let mut clients = Vec::new();
    for (scope, _) in names::SCOPES {
        clients.push((*scope, project.key(Environment::Test, &[*scope]).await.client));
    }
    let operations = operations(&clients[0].1.get("/v1/openapi.json").await.ok(200));
    assert!(operations.len() > 20, "{}", operations.len());
    for told in &operations {
        let place = format!("{} {}", told.method, told.path);
        let class = format!("\"{}\";", told.class);
        // One with another scope, and one with this.
        for is_right in [false, true] {
            let has = |scope: &str| told.scope.as_deref() == Some(scope);
            let (_, client) = clients.iter().find(|(scope, _)| has(scope) == is_right).unwrap_or(&clients[0]);
            let (status, policy, message) = ask(client, told).await;
            assert!(policy.starts_with(&class), "{place}: {policy}");
            match &told.scope {
                Some(scope) if !is_right => {
                    let lacks = format!("this key lacks the scope {scope}; create a key that has it");
                    assert_eq!((status, message), (403, lacks), "{place}");
                }
                _ => assert_eq!(status, 422, "{place}: {message}"),
            }
        }
    }
}
