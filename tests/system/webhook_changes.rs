//! Webhooks after their creation: changes, new secrets, tests and replays.

use serde_json::{Value, json};

use crate::harness::{Client, Receiver, SOON, Service, eventually, text, time};

on_both_stores![
    a_change_replaces_what_it_gives,
    new_filters_count_from_the_answer_on,
    a_disabled_webhook_gets_nothing_new,
    what_waits_for_a_disabled_webhook_goes_out_when_it_is_enabled,
    the_old_secret_signs_beside_the_new_one,
    a_test_goes_out_whatever_the_webhook_wants,
    a_replay_is_a_new_delivery_of_the_same_event,
    tests_and_replays_have_a_limit_of_their_own,
    what_belongs_to_others_is_not_found,
    a_retried_request_is_done_once,
];

const URL: &str = "http://127.0.0.1:19999/hook";

fn path(webhook: &Value, rest: &str) -> String {
    format!("/v1/webhooks/{}{rest}", text(webhook, "id"))
}

/// Waits until a delivery has this status; gives its row in the log.
async fn becomes(client: &Client, delivery: &Value, status: &str) -> Value {
    let log = format!("/v1/webhooks/{}/deliveries", text(delivery, "webhook_id"));
    eventually(&format!("a delivery is {status}"), SOON, async || {
        let rows = client.all(&log).await;
        rows.into_iter().find(|row| row["id"] == delivery["id"] && row["status"] == status)
    })
    .await
}

/// The delivery of an event to a webhook, once it has this status.
async fn delivery_of(client: &Client, webhook: &Value, event: &Value, status: &str) -> Value {
    let log = path(webhook, &format!("/deliveries?event_id={}", text(event, "id")));
    eventually(&format!("a delivery is {status}"), SOON, async || {
        client.all(&log).await.into_iter().find(|row| row["status"] == status)
    })
    .await
}

async fn a_change_replaces_what_it_gives(service: &Service) {
    let client = service.test_client().await;
    let body = json!({
        "url": URL, "events": ["thesis.created"], "filters": {"token": ["$RUN"], "chain": ["sandbox"]}, "description": "x",
    });
    let mut made = client.post("/v1/webhooks", &body).await.ok(201);
    made.as_object_mut().unwrap().remove("secret");
    assert_eq!(client.patch(&path(&made, ""), &json!({})).await.ok(200), made, "an empty change changes nothing");
    let mut expected = made.clone();
    for (field, value) in [
        ("url", json!("http://127.0.0.1:19998/other")),
        ("events", json!(["token.activity", "thesis.created"])),
        ("filters", json!({"handle": ["@writer"]})),
        ("filters", json!({})),
        ("description", json!("y")),
        ("description", json!("")),
        ("description", Value::Null),
        ("status", json!("disabled")),
        ("status", json!("enabled")),
        ("payload", json!("thin")),
        ("payload", json!("full")),
    ] {
        let changed = client.patch(&path(&made, ""), &json!({ field: value })).await.ok(200);
        assert!(time(&changed, "updated_at") >= time(&expected, "updated_at"));
        expected[field] = value;
        expected["updated_at"] = changed["updated_at"].clone();
        assert_eq!(changed, expected);
        assert_eq!(client.get(&path(&made, "")).await.ok(200), expected);
    }
    // Nothing of a refused change is done.
    let bad = json!({"description": "z", "url": "http://10.0.0.1/"});
    client.patch(&path(&made, ""), &bad).await.error(422, "WEBHOOK_URL_FORBIDDEN");
    client.patch(&path(&made, ""), &json!({"description": "z", "events": []})).await.invalid(&["events"]);
    assert_eq!(client.get(&path(&made, "")).await.ok(200), expected);
}

async fn new_filters_count_from_the_answer_on(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let body = json!({"url": receiver.url, "events": ["thesis.created"], "filters": {"token": ["$ONE"]}});
    let webhook = client.post("/v1/webhooks", &body).await.ok(201);
    let rounds = [["ONE", "THREE", "TWO"], ["ONE", "TWO", "THREE"], ["TWO", "THREE", "ONE"]];
    for posted in rounds {
        let filter = format!("${}", posted[2]);
        client.patch(&path(&webhook, ""), &json!({"filters": {"token": [filter]}})).await.ok(200);
        let mut last = Value::Null;
        for token in posted {
            last = client.thesis("writer", token, "x").await.1;
        }
        // The fan-out goes by the log's order, so the others are judged by then.
        receiver.delivery_of(&last).await;
    }
    assert_eq!(receiver.arrivals().len(), rounds.len(), "and nothing else");
}

async fn a_disabled_webhook_gets_nothing_new(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let other = client.webhook(&receiver.url, &["thesis.created"]).await;
    client.patch(&path(&webhook, ""), &json!({"status": "disabled"})).await.ok(200);
    let unseen = client.thesis("writer", "OFF", "unseen").await.1;
    // On a cluster a webhook that is enabled within the clock skew still gets an event that the fan-out has not passed.
    delivery_of(&client, &other, &unseen, "delivered").await;
    client.patch(&path(&webhook, ""), &json!({"status": "enabled"})).await.ok(200);
    let event = client.thesis("writer", "OFF", "seen").await.1;
    delivery_of(&client, &webhook, &event, "delivered").await;
    assert_eq!(client.all(&path(&webhook, "/deliveries")).await.len(), 1);
}

async fn what_waits_for_a_disabled_webhook_goes_out_when_it_is_enabled(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    receiver.answer(503);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let event = client.thesis("writer", "WAITS", "x").await.1;
    let waiting = delivery_of(&client, &webhook, &event, "retrying").await;
    client.patch(&path(&webhook, ""), &json!({"status": "disabled"})).await.ok(200);
    assert_eq!(becomes(&client, &waiting, "retrying").await, waiting);
    client.patch(&path(&webhook, ""), &json!({"status": "enabled"})).await.ok(200);
    assert_eq!(becomes(&client, &waiting, "retrying").await, waiting, "its time has not come");
}

async fn the_old_secret_signs_beside_the_new_one(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let mut secrets = vec![text(&webhook, "secret").to_owned()];
    for _ in 0..2 {
        let rotated = client.post(&path(&webhook, "/rotate-secret"), &json!({})).await.ok(200);
        let secret = text(&rotated, "secret").to_owned();
        assert!(secret.starts_with(text(&rotated, "secret_prefix")) && !secrets.contains(&secret));
        assert_eq!((&rotated["id"], &rotated["url"]), (&webhook["id"], &webhook["url"]));
        secrets.insert(0, secret);
        let event = client.thesis("writer", "ROTATED", "x").await.1;
        let received = receiver.delivery_of(&event).await;
        received.verify(&secrets[0]);
        received.verify(&secrets[1]);
        // The newest first, and no more than two.
        assert_eq!(received.header("service-signature").matches("v1=").count(), 2);
    }
    assert!(!client.get(&path(&webhook, "")).await.text.contains(&secrets[0]));
}

async fn a_test_goes_out_whatever_the_webhook_wants(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let body = json!({"url": receiver.url, "events": ["profile.updated"], "filters": {"chain": ["none"]}});
    let webhook = client.post("/v1/webhooks", &body).await.ok(201);
    client.patch(&path(&webhook, ""), &json!({"status": "disabled"})).await.ok(200);
    let sent = client.post(&path(&webhook, "/test"), &json!({})).await.ok(202);
    assert_eq!((&sent["object"], &sent["status"]), (&json!("webhook_delivery"), &json!("pending")));
    assert_eq!((&sent["is_test"], &sent["is_replay"], &sent["attempt"]), (&json!(true), &json!(false), &json!(0)));
    let row = becomes(&client, &sent, "delivered").await;
    assert_eq!((&row["attempt"], &row["event_type"]), (&json!(1), &json!("thesis.created")));
    let received = receiver.received().remove(0);
    received.verify(text(&webhook, "secret"));
    assert_eq!((received.header("service-test"), received.header("service-replay")), ("true", "false"));
    let event = received.event();
    assert_eq!((&event["id"], &event["type"]), (&sent["event_id"], &json!("thesis.created")));
    assert_eq!(
        (&event["test"], &event["source"], &event["livemode"]),
        (&json!(true), &json!("sandbox"), &json!(false))
    );
    assert!(text(&event["data"]["profile"], "handle").starts_with("@sbx_"));
    assert_eq!(event["data"]["token"]["chain"], "sandbox");
    // It is in no log.
    client.get(&format!("/v1/events/{}", text(&event, "id"))).await.error(404, "EVENT_NOT_FOUND");
    assert_eq!(receiver.received().len(), 1);
}

async fn a_replay_is_a_new_delivery_of_the_same_event(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let event = client.thesis("writer", "AGAIN", "x").await.1;
    let first = delivery_of(&client, &webhook, &event, "delivered").await;
    let mut before = first.clone();
    // A replay of a replay names the first original. It goes out although the webhook is disabled.
    client.patch(&path(&webhook, ""), &json!({"status": "disabled"})).await.ok(200);
    for count in 2..=3 {
        let replay = format!("/v1/webhook-deliveries/{}/replay", text(&before, "id"));
        let sent = client.post(&replay, &json!({})).await.ok(202);
        assert_ne!(sent["id"], before["id"]);
        assert_eq!(
            (&sent["event_id"], &sent["is_replay"], &sent["is_test"]),
            (&event["id"], &json!(true), &json!(false))
        );
        before = becomes(&client, &sent, "delivered").await;
        let received = receiver.received();
        let received = received.iter().find(|one| one.header("service-delivery-id") == text(&sent, "id")).unwrap();
        received.verify(text(&webhook, "secret"));
        assert_eq!(received.event(), event);
        assert_eq!(received.header("service-replay"), "true");
        assert_eq!(received.header("service-replay-of"), text(&first, "id"));
        assert_eq!((received.header("service-delivery-attempt"), receiver.received().len()), ("1", count));
        assert!(!received.headers.contains_key("service-test"));
    }
    // One that is under way is not replayed.
    client.patch(&path(&webhook, ""), &json!({"status": "enabled"})).await.ok(200);
    receiver.answer(500);
    let event = client.thesis("writer", "AGAIN", "y").await.1;
    let waiting = delivery_of(&client, &webhook, &event, "retrying").await;
    let replay = format!("/v1/webhook-deliveries/{}/replay", text(&waiting, "id"));
    client.post(&replay, &json!({})).await.error(409, "DELIVERY_IN_PROGRESS");
    // A replay of a test is a test.
    let test = client.post(&path(&webhook, "/test"), &json!({})).await.ok(202);
    becomes(&client, &test, "delivered").await;
    let replay = format!("/v1/webhook-deliveries/{}/replay", text(&test, "id"));
    let sent = client.post(&replay, &json!({})).await.ok(202);
    assert_eq!((&sent["is_test"], &sent["is_replay"]), (&json!(true), &json!(true)));
    becomes(&client, &sent, "delivered").await;
    let received = receiver.received();
    let received = received.iter().find(|one| one.header("service-delivery-id") == text(&sent, "id")).unwrap();
    assert_eq!((received.header("service-test"), received.header("service-replay-of")), ("true", text(&test, "id")));
}

async fn tests_and_replays_have_a_limit_of_their_own(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let client = client.at_one_edge();
    let webhook = client.webhook(&receiver.url, &["profile.updated"]).await;
    let mut sent = 0;
    let answer = loop {
        let answer = client.post(&path(&webhook, "/test"), &json!({})).await;
        if answer.status != 202 {
            break answer;
        }
        sent += 1;
        assert!(sent <= 20);
    };
    // The minute may have changed in between.
    assert!((10..=20).contains(&sent), "{sent}");
    answer.error(429, "RATE_LIMITED");
    let wait: u32 = answer.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait));
    // Other requests are not concerned.
    client.get(&path(&webhook, "")).await.ok(200);
}

async fn what_belongs_to_others_is_not_found(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let stranger = service.test_client().await;
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let event = client.thesis("writer", "MINE", "x").await.1;
    let delivery = delivery_of(&client, &webhook, &event, "delivered").await;
    let replay = format!("/v1/webhook-deliveries/{}/replay", text(&delivery, "id"));
    for id in [text(&webhook, "id"), "wh_000000000000000000000000", "x"] {
        stranger
            .patch(&format!("/v1/webhooks/{id}"), &json!({"status": "disabled"}))
            .await
            .error(404, "WEBHOOK_NOT_FOUND");
        stranger.post(&format!("/v1/webhooks/{id}/rotate-secret"), &json!({})).await.error(404, "WEBHOOK_NOT_FOUND");
        stranger.post(&format!("/v1/webhooks/{id}/test"), &json!({})).await.error(404, "WEBHOOK_NOT_FOUND");
    }
    stranger.post(&replay, &json!({})).await.error(404, "DELIVERY_NOT_FOUND");
    client.post("/v1/webhook-deliveries/del_x/replay", &json!({})).await.error(404, "DELIVERY_NOT_FOUND");
    // Once the webhook is deleted, its deliveries are gone too.
    client.delete(&path(&webhook, "")).await.ok(200);
    client.post(&replay, &json!({})).await.error(404, "DELIVERY_NOT_FOUND");
    assert_eq!(receiver.received().len(), 1);
}

async fn a_retried_request_is_done_once(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["profile.updated"]).await;
    let rotate = path(&webhook, "/rotate-secret");
    let first = client.post_once(&rotate, &json!({}), "rotation").await.ok(200);
    assert_eq!(client.post_once(&rotate, &json!({}), "rotation").await.ok(200), first);
    let test = path(&webhook, "/test");
    let first = client.post_once(&test, &json!({}), "a test").await.ok(202);
    assert_eq!(client.post_once(&test, &json!({}), "a test").await.ok(202), first);
    becomes(&client, &first, "delivered").await;
    let replay = format!("/v1/webhook-deliveries/{}/replay", text(&first, "id"));
    let again = client.post_once(&replay, &json!({}), "a replay").await.ok(202);
    assert_eq!(client.post_once(&replay, &json!({}), "a replay").await.ok(202), again);
    becomes(&client, &again, "delivered").await;
    assert_eq!(receiver.received().len(), 2);
}
