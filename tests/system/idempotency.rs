//! `Idempotency-Key` on every POST.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    examples::errors::assert_example,
    harness::{Answer, Client, Service, text},
};

on_both_stores![
    a_repeat_gets_the_first_answer,
    another_request_with_the_key_is_refused,
    a_key_is_its_projects_and_environments,
    failures_are_kept_too,
    wrong_shapes_are_not_kept,
    what_may_pass_is_not_kept,
    repeats_at_once_create_one,
    the_key_has_a_form,
];

/// Every POST with a body that creates something.
fn posts() -> [(&'static str, Value); 2] {
    [
        ("/v1/test/theses", json!({"handle": "writer", "token": "ONCE", "text": "said once"})),
        ("/v1/webhooks", json!({"url": "http://127.0.0.1:19999/", "events": ["thesis.created"]})),
    ]
}

fn is_replay(answer: &Answer) -> bool {
    let replayed = answer.headers.get("idempotent-replayed");
    assert!(replayed.is_none_or(|value| value == "true"));
    replayed.is_some()
}

/// Counts the theses and webhooks of a client.
async fn count_rows(client: &Client) -> (usize, usize) {
    (client.all("/v1/theses?handle=writer").await.len(), client.all("/v1/webhooks").await.len())
}

async fn a_repeat_gets_the_first_answer(service: &Service) {
    let client = service.test_client().await;
    for (path, body) in posts() {
        let key = format!("repeat of {path} ~!");
        let first = client.post_once(path, &body, &key).await;
        first.ok(201);
        assert!(!is_replay(&first));
        // The same request, however its JSON is written.
        let written = format!(" {}\n", serde_json::to_string_pretty(&body).unwrap());
        let spaced = client.request(Method::POST, path).header("content-type", "application/json; charset=utf-8");
        for again in [
            client.post_once(path, &body, &key).await,
            client.send(spaced.header("idempotency-key", &key).body(written)).await,
        ] {
            assert_eq!((again.status, &again.text), (201, &first.text));
            assert!(is_replay(&again));
            assert_ne!(again.header("x-service-request-id"), first.header("x-service-request-id"));
            assert!(again.headers.contains_key("x-ratelimit-remaining"));
        }
        // Without the key, or with another, it is another request.
        let other = client.post_once(path, &body, &format!("{key} 2")).await;
        assert_ne!(other.ok(201), first.json());
        assert!(!is_replay(&client.post(path, &body).await));
    }
    assert_eq!(count_rows(&client).await, (3, 3));
}

async fn another_request_with_the_key_is_refused(service: &Service) {
    let client = service.test_client().await;
    let [(theses, thesis), (webhooks, webhook)] = posts();
    client.post_once(theses, &thesis, "k").await.ok(201);
    let mut other = thesis.clone();
    other["text"] = json!("said otherwise");
    client.post_once(theses, &other, "k").await.error(422, "IDEMPOTENCY_KEY_REUSED");
    client.post_once(webhooks, &webhook, "k").await.error(422, "IDEMPOTENCY_KEY_REUSED");
    assert_eq!(count_rows(&client).await, (1, 0));
    assert!(is_replay(&client.post_once(theses, &thesis, "k").await));
}

async fn a_key_is_its_projects_and_environments(service: &Service) {
    let project = service.project().await;
    let (test, live) = (project.test().await, project.live().await);
    let body = json!({"url": "https://1.1.1.1/hook", "events": ["thesis.created"]});
    let first = test.post_once("/v1/webhooks", &body, "shared").await;
    first.ok(201);
    let same_project = project.test().await.post_once("/v1/webhooks", &body, "shared").await;
    assert!(is_replay(&same_project) && same_project.text == first.text);
    let mut seen = vec![first.json()["id"].clone()];
    for client in [live, service.test_client().await] {
        let answer = client.post_once("/v1/webhooks", &body, "shared").await;
        assert!(!is_replay(&answer));
        let id = answer.ok(201)["id"].clone();
        assert!(!seen.contains(&id));
        seen.push(id);
    }
}

async fn failures_are_kept_too(service: &Service) {
    let client = service.test_client().await;
    let body = json!({"url": "http://10.0.0.1/", "events": ["thesis.created"]});
    let first = client.post_once("/v1/webhooks", &body, "refused").await;
    let error = first.error(422, "WEBHOOK_URL_FORBIDDEN");
    let again = client.post_once("/v1/webhooks", &body, "refused").await;
    let repeated = again.error(422, "WEBHOOK_URL_FORBIDDEN");
    assert!(is_replay(&again) && !is_replay(&first));
    assert_eq!(repeated["details"], error["details"]);
    assert_eq!(again.same_everywhere(), first.same_everywhere());
}

async fn wrong_shapes_are_not_kept(service: &Service) {
    let client = service.test_client().await;
    let (path, good) = &posts()[0];
    client.post_once(path, &json!({"handle": "writer"}), "shape").await.invalid(&["token", "text"]);
    client.post_once(path, &json!([]), "shape").await.error(422, "VALIDATION_FAILED");
    assert!(!is_replay(&client.post_once(path, good, "shape").await));
    // A refusal before the operation is not kept either.
    let project = service.project().await;
    let live = project.live().await;
    live.post_once(path, good, "live").await.error(403, "TEST_KEY_REQUIRED");
    assert!(!is_replay(&live.post_once(path, good, "live").await));
}

async fn what_may_pass_is_not_kept(service: &Service) {
    // The plan has room for three.
    let client = service.project_on("free").await.test().await;
    let body = |number: usize| json!({"url": format!("http://127.0.0.1:19999/{number}"), "events": ["thesis.created"]});
    let path = "/v1/webhooks";
    let mut made = Vec::new();
    for number in 0..3 {
        made.push(client.post(path, &body(number)).await.ok(201));
    }
    for _ in 0..2 {
        let refused = client.post_once(path, &body(3), "fourth").await;
        refused.error(403, "WEBHOOK_LIMIT_REACHED");
        assert!(!is_replay(&refused));
    }
    client.delete(&format!("{path}/{}", text(&made[0], "id"))).await.ok(200);
    let fourth = client.post_once(path, &body(3), "fourth").await;
    fourth.ok(201);
    assert!(!is_replay(&fourth));
    let again = client.post_once(path, &body(3), "fourth").await;
    assert!(is_replay(&again) && again.text == fourth.text);
    // The key still belongs to the request that was answered.
    client.post_once(path, &body(4), "fourth").await.error(422, "IDEMPOTENCY_KEY_REUSED");
    // After a refusal that is not kept, it may go to another one.
    client.post_once(path, &body(5), "fifth").await.error(403, "WEBHOOK_LIMIT_REACHED");
    client.delete(&format!("{path}/{}", text(&made[1], "id"))).await.ok(200);
    let other = client.post_once(path, &body(6), "fifth").await;
    assert_eq!(other.ok(201)["url"], body(6)["url"]);
    assert!(!is_replay(&other));
    client.post_once(path, &body(5), "fifth").await.error(422, "IDEMPOTENCY_KEY_REUSED");
}

#[tokio::test]
async fn a_name_may_get_an_address() {
    // Nobody answers there.
    let service = Service::embedded(|setup| setup.set("SVC_DNS_SERVERS", "127.0.0.1:9"));
    let client = service.test_client().await;
    let body = json!({"url": "http://hooks.trade-thesis.net/", "events": ["thesis.created"]});
    for _ in 0..2 {
        let refused = client.post_once("/v1/webhooks", &body, "nowhere").await;
        assert_eq!(refused.error(422, "WEBHOOK_URL_FORBIDDEN")["details"]["reason"], "unresolvable");
        assert!(!is_replay(&refused));
    }
}

async fn repeats_at_once_create_one(service: &Service) {
    let client = service.test_client().await;
    for (path, body) in posts() {
        let sending: tokio::task::JoinSet<Answer> = (0..16)
            .map(|_| {
                let (client, body) = (client.clone(), body.clone());
                async move { client.post_once(path, &body, path).await }
            })
            .collect();
        let answers = sending.join_all().await;
        let (created, busy): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|answer| answer.status == 201);
        for answer in busy {
            answer.error(409, "IDEMPOTENCY_IN_PROGRESS");
            assert_example(&client, answer).await;
        }
        assert_eq!(created.iter().filter(|answer| !is_replay(answer)).count(), 1, "{path}");
        assert!(created.iter().all(|answer| answer.text == created[0].text));
        assert!(is_replay(&client.post_once(path, &body, path).await));
    }
    assert_eq!(count_rows(&client).await, (1, 1));
}

async fn the_key_has_a_form(service: &Service) {
    let client = service.test_client().await;
    let (path, body) = &posts()[0];
    let longest = "k".repeat(255);
    client.post_once(path, body, &longest).await.ok(201);
    for wrong in ["", &"k".repeat(256), "tab\there", "kéy"] {
        client.post_once(path, body, wrong).await.error(400, "INVALID_REQUEST");
    }
    let twice = client.request(Method::POST, path).json(body).header("idempotency-key", "a");
    client.send(twice.header("idempotency-key", "b")).await.error(400, "INVALID_REQUEST");
    // Reading ignores it.
    let reading = client.request(Method::GET, "/v1/me").header("idempotency-key", "");
    assert!(!is_replay(&client.send(reading).await));
    assert_eq!(count_rows(&client).await, (1, 0));
}
