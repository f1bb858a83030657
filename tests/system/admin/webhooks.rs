//! `admin webhook`: the webhooks of a project, and replays of their deliveries.

use std::collections::HashSet;

use serde_json::{Value, json};
use tokio::task::spawn_blocking;

use super::{admin, refused, setup};
use crate::harness::{Client, Receiver, SOON, Service, assert_fields, eventually, ids, iso, now_ms, rows, text};

on_both_stores![
    webhooks_of_both_environments_are_listed,
    finished_deliveries_are_sent_again,
    a_replay_needs_a_webhook_and_a_time,
];

async fn webhooks_of_both_environments_are_listed(service: &Service) {
    let project = service.project().await;
    let list = ["webhook", "list", "--project", &project.id];
    assert!(rows(&admin(service, &list)).is_empty());
    let (test, live) = (project.test().await, project.live().await);
    for url in ["http://127.0.0.1:19999/a", "http://127.0.0.1:19999/b"] {
        let filters = json!({"token": ["$RUN"]});
        let body = json!({"url": url, "events": ["thesis.created"], "filters": filters, "description": "x"});
        test.post("/v1/webhooks", &body).await.ok(201);
    }
    live.webhook("https://1.1.1.1/hook", &["profile.updated", "token.activity"]).await;
    service.test_client().await.webhook("http://127.0.0.1:19999/other", &["thesis.created"]).await;

    let listed = admin(service, &list);
    let listed = rows(&listed);
    let [of_test, of_live] = [test.all("/v1/webhooks").await, live.all("/v1/webhooks").await];
    let known: HashSet<&str> = ids(&of_test).into_iter().chain(ids(&of_live)).collect();
    assert_eq!((listed.len(), ids(listed).into_iter().collect::<HashSet<_>>()), (3, known));
    // As the API shows them, without their secrets.
    assert!(of_test.iter().chain(&of_live).all(|webhook| listed.contains(webhook)), "{listed:?}");
    assert!(listed.is_sorted_by(|newer, older| text(newer, "created_at") >= text(older, "created_at")));

    let (exit, stdout, stderr) = setup(service).arguments(&[&["admin"], &list[..]].concat()).run();
    assert_eq!((exit, stderr.as_str(), stdout.lines().count()), (Some(0), "", 4), "{stdout}");
    refused(service, &["webhook", "list", "--project", "prj_unknown"], "PROJECT_NOT_FOUND");
}

/// Runs a command while the endpoint of this test answers; gives its stdout and stderr.
async fn run(service: &Service, arguments: &[&str]) -> (String, String) {
    let command = setup(service).arguments(&[&["admin", "webhook", "replay"], arguments].concat());
    let (exit, stdout, stderr) = spawn_blocking(move || command.run()).await.unwrap();
    assert_eq!(exit, Some(0), "{stdout} {stderr}");
    (stdout, stderr)
}

/// Replays; gives how many deliveries were sent again.
async fn replay(service: &Service, webhook: &str, arguments: &[&str]) -> i64 {
    let (stdout, stderr) = run(service, &[&["--json", "--webhook", webhook], arguments].concat()).await;
    assert_eq!(stderr, "");
    let told: Value = serde_json::from_str(&stdout).unwrap();
    assert_fields(&told, &["object", "webhook_id", "looked_at", "replayed"]);
    assert_eq!((text(&told, "object"), text(&told, "webhook_id")), ("webhook_replay", webhook));
    let (looked_at, replayed) = (told["looked_at"].as_i64().unwrap(), told["replayed"].as_i64().unwrap());
    assert!(looked_at >= replayed, "{told}");
    replayed
}

/// Waits until an event's first delivery has a status.
async fn original(client: &Client, webhook: &str, event: &Value, status: &str) -> Value {
    let path = format!("/v1/webhooks/{webhook}/deliveries?event_id={}", text(event, "id"));
    eventually(&format!("the delivery is {status}"), SOON, async || {
        let deliveries = client.all(&path).await;
        deliveries.into_iter().find(|row| row["status"] == status && row["is_replay"] == false)
    })
    .await
}

/// Demands that these originals, and no others, arrive as replays after the first `before` requests.
async fn arrive_again(receiver: &Receiver, before: usize, secret: &str, originals: &[&Value]) {
    let expected: HashSet<(&str, &str)> =
        originals.iter().map(|row| (text(row, "id"), text(row, "event_id"))).collect();
    let received = eventually("the replays", SOON, async || {
        let received = receiver.received();
        (received.len() >= before + originals.len()).then_some(received)
    })
    .await;
    let again = &received[before..];
    let found: HashSet<(&str, &str)> = again
        .iter()
        .map(|received| (received.header("service-replay-of"), received.header("service-event-id")))
        .collect();
    assert_eq!((again.len(), found), (originals.len(), expected));
    for received in again {
        received.verify(secret);
        assert_eq!(received.header("service-replay"), "true");
        assert_ne!(received.header("service-delivery-id"), received.header("service-replay-of"));
        assert_eq!(text(&received.event(), "id"), received.header("service-event-id"));
    }
}

async fn finished_deliveries_are_sent_again(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let made = client.webhook(&receiver.url, &["thesis.created"]).await;
    let (webhook, secret) = (text(&made, "id"), text(&made, "secret"));
    let mut originals = Vec::new();
    for number in 0..2 {
        let event = client.thesis("writer", "REPLAYED", &number.to_string()).await.1;
        originals.push(original(&client, webhook, &event, "delivered").await);
    }
    // This one ends as failed, and disables the webhook: replays go out all the same.
    receiver.answer(410);
    let event = client.thesis("writer", "REPLAYED", "gone").await.1;
    originals.push(original(&client, webhook, &event, "failed").await);
    assert_eq!(receiver.received().len(), 3);

    let (past, future) = (iso(now_ms() - 3_600_000), iso(now_ms() + 3_600_000));
    let all = ["--since", past.as_str()];
    assert_eq!(replay(service, webhook, &["--since", &future]).await, 0);
    assert_eq!(replay(service, webhook, &[&all[..], &["--status", "failed"]].concat()).await, 1);
    arrive_again(&receiver, 3, secret, &[&originals[2]]).await;
    // Only deliveries from that time on.
    assert_eq!(replay(service, webhook, &["--since", text(&originals[1], "created_at")]).await, 2);
    arrive_again(&receiver, 4, secret, &[&originals[1], &originals[2]]).await;
    // Replays are not replayed themselves.
    assert_eq!(replay(service, webhook, &all).await, 3);
    arrive_again(&receiver, 6, secret, &originals.iter().collect::<Vec<_>>()).await;
    assert_eq!(replay(service, webhook, &[&all[..], &["--status", "delivered"]].concat()).await, 2);
    arrive_again(&receiver, 9, secret, &[&originals[0], &originals[1]]).await;

    let (stdout, _) = run(service, &[&["--webhook", webhook], &all[..]].concat()).await;
    assert!(stdout.contains("replayed") && serde_json::from_str::<Value>(&stdout).is_err(), "{stdout}");
    arrive_again(&receiver, 11, secret, &originals.iter().collect::<Vec<_>>()).await;
}

async fn a_replay_needs_a_webhook_and_a_time(service: &Service) {
    let since = ["--since", "2031-01-01T00:00:00Z"];
    let unknown = ["webhook", "replay", "--webhook", "wh_0000000000000000000000000"];
    refused(service, &[&unknown[..], &since].concat(), "WEBHOOK_NOT_FOUND");
    refused(service, &unknown, "INVALID_REQUEST");
    refused(service, &[&unknown[..], &["--since", "yesterday"]].concat(), "INVALID_REQUEST");
    refused(service, &[&unknown[..], &since, &["--status", "pending"]].concat(), "INVALID_REQUEST");
    let client = service.test_client().await;
    let made = client.webhook("http://127.0.0.1:19999/hook", &["thesis.created"]).await;
    assert_eq!(replay(service, text(&made, "id"), &since).await, 0);
    client.delete(&format!("/v1/webhooks/{}", text(&made, "id"))).await.ok(200);
    service.settle().await;
    let gone = ["webhook", "replay", "--webhook", text(&made, "id")];
    refused(service, &[&gone[..], &since].concat(), "WEBHOOK_NOT_FOUND");
}
