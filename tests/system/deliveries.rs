//! Deliveries: the requests at a webhook's endpoint, and their log.

use std::{collections::HashSet, time::Duration};

use serde_json::{Value, json};

use thesis_proto::v1::observation::Observed;
use tokio::net::TcpListener;

use crate::harness::{
    Client, Receiver, SOON, Service, assert_fields, eventually, ids,
    ingest::{author, seen_at, thesis, token},
    now_ms, rows, text, time,
};

on_both_stores![
    an_event_arrives_signed,
    only_what_matches_arrives,
    derived_events_arrive_too,
    nothing_from_before_its_creation_arrives,
    gone_ends_the_delivery_and_its_webhook,
    a_failure_is_tried_again_a_minute_later,
    redirects_are_not_followed,
    no_connection_is_a_failure,
    an_answer_after_five_seconds_is_late,
    any_success_will_do,
    the_log_can_be_filtered_and_paged,
    nothing_arrives_after_deletion,
    withdrawn_live_access_cancels_for_good,
];

/// Waits until the delivery of an event to a webhook has this status; gives its row in the log.
async fn delivery(client: &Client, webhook: &Value, event: &Value, status: &str) -> Value {
    let path = format!("/v1/webhooks/{}/deliveries?event_id={}", text(webhook, "id"), text(event, "id"));
    eventually(&format!("a delivery is {status}"), SOON, async || {
        let deliveries = client.all(&path).await;
        assert!(deliveries.len() <= 1, "{deliveries:?}");
        deliveries.into_iter().find(|delivery| delivery["status"] == status)
    })
    .await
}

async fn an_event_arrives_signed(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let created = client.thesis("writer", "HOOKED", "arrives, with ünï and 🚀").await;
    let event = created.1;
    let received = receiver.delivery_of(&event).await;
    received.verify(text(&webhook, "secret"));
    assert_eq!(received.path, "/hook");
    // The same bytes as over REST.
    let over_rest = client.get(&format!("/v1/events/{}", text(&event, "id"))).await;
    assert_eq!(received.body, over_rest.text.as_bytes());
    assert_eq!(received.event(), event);
    received.is_first_attempt_of(&event);
    assert_eq!(event["type"], "thesis.created");
    let row = delivery(&client, &webhook, &event, "delivered").await;
    let attempts = ["attempt", "max_attempts", "response_status", "latency_ms", "next_attempt_at"];
    let flags = ["is_replay", "is_test", "created_at", "delivered_at"];
    let fields = ["object", "id", "webhook_id", "event_id", "event_type", "status"];
    assert_fields(&row, &[&fields[..], &attempts, &flags].concat());
    assert_eq!((text(&row, "object"), text(&row, "id")), ("webhook_delivery", received.header("service-delivery-id")));
    assert!(text(&row, "id").starts_with("del_"));
    assert_eq!(
        (&row["webhook_id"], &row["event_id"], &row["event_type"]),
        (&webhook["id"], &event["id"], &event["type"])
    );
    assert_eq!((&row["attempt"], &row["max_attempts"], &row["response_status"]), (&json!(1), &json!(6), &json!(200)));
    assert_eq!(
        (&row["is_replay"], &row["is_test"], &row["next_attempt_at"]),
        (&json!(false), &json!(false), &Value::Null)
    );
    assert!(row["latency_ms"].as_i64().unwrap() < 5_000);
    assert!(time(&row, "delivered_at") >= time(&row, "created_at"));
    assert_eq!(receiver.received().len(), 1);
}

async fn only_what_matches_arrives(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let body = json!({
        "url": receiver.url, "events": ["thesis.created"], "filters": {"token": ["run", "$OURS"], "handle": ["Writer"]},
    });
    client.post("/v1/webhooks", &body).await.ok(201);
    client.thesis("writer", "OTHER", "wrong token").await;
    client.thesis("sbx_runner", "OURS", "wrong handle").await;
    let first = client.thesis("writer", "OURS", "right").await.1;
    let last = client.thesis("@WRITER", "$RUN", "right").await.1;
    // Another project's event does not arrive.
    service.test_client().await.thesis("writer", "OURS", "not ours").await;
    receiver.delivery_of(&first).await;
    receiver.delivery_of(&last).await;
    let mut arrived: Vec<Value> = receiver.received().iter().map(|received| received.event()["id"].clone()).collect();
    arrived.sort_by_key(ToString::to_string);
    let mut expected = vec![first["id"].clone(), last["id"].clone()];
    expected.sort_by_key(ToString::to_string);
    assert_eq!(arrived, expected);
}

async fn derived_events_arrive_too(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let types = ["token.activity", "token.thesis_velocity"];
    let body = json!({"url": receiver.url, "events": types, "filters": {"token": ["BUSY"]}});
    let webhook = client.post("/v1/webhooks", &body).await.ok(201);
    client.thesis("writer", "BUSY", "x").await;
    for kind in types {
        let received = eventually(kind, SOON, async || {
            receiver.received().into_iter().find(|received| received.header("service-event-type") == kind)
        })
        .await;
        received.verify(text(&webhook, "secret"));
        assert_eq!(received.event()["data"]["token"]["symbol"], "$BUSY");
    }
}

async fn nothing_from_before_its_creation_arrives(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    // Replicas' clocks may differ by two seconds: a webhook may still get events that much older.
    let before = client.thesis("writer", "EARLY", "before").await.1;
    eventually("two seconds", SOON, async || (now_ms() - time(&before, "created_at") > 2_100).then_some(())).await;
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let after = client.thesis("writer", "EARLY", "after").await.1;
    receiver.delivery_of(&after).await;
    let deliveries = client.all(&format!("/v1/webhooks/{}/deliveries", text(&webhook, "id"))).await;
    assert_eq!(deliveries.iter().map(|row| &row["event_id"]).collect::<Vec<_>>(), [&after["id"]]);
}

async fn gone_ends_the_delivery_and_its_webhook(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    receiver.answer(410);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let event = client.thesis("writer", "GONE", "x").await.1;
    let row = delivery(&client, &webhook, &event, "failed").await;
    assert_eq!((&row["attempt"], &row["response_status"]), (&json!(1), &json!(410)));
    assert_eq!((&row["next_attempt_at"], &row["delivered_at"]), (&Value::Null, &Value::Null));
    // The webhook is disabled too, and gets nothing new.
    let path = format!("/v1/webhooks/{}", text(&webhook, "id"));
    assert_eq!(client.get(&path).await.ok(200)["status"], "disabled");
    let calm = client.webhook(&receiver.url, &["thesis.created"]).await;
    let event = client.thesis("writer", "GONE", "y").await.1;
    delivery(&client, &calm, &event, "delivered").await;
    assert_eq!(client.all(&format!("{path}/deliveries")).await, [row]);
}

/// Demands that a delivery is due again a minute after its first attempt.
fn is_due_in_a_minute(row: &Value, sent_ms: i64) {
    assert_eq!((&row["attempt"], &row["delivered_at"]), (&json!(1), &Value::Null), "{row}");
    let wait = time(row, "next_attempt_at") - sent_ms;
    assert!((59_000..=70_000).contains(&wait), "{wait}");
}

async fn a_failure_is_tried_again_a_minute_later(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    receiver.answer(500);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let event = client.thesis("writer", "RETRIED", "x").await.1;
    let sent = receiver.delivery_of(&event).await;
    let row = delivery(&client, &webhook, &event, "retrying").await;
    is_due_in_a_minute(&row, sent.at_ms);
    assert_eq!(row["response_status"], 500);
    // Other deliveries are not delayed.
    let next = client.thesis("writer", "RETRIED", "y").await.1;
    delivery(&client, &webhook, &next, "delivered").await;
    assert_eq!(receiver.received().len(), 2);
}

async fn redirects_are_not_followed(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    receiver.answer(307);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let event = client.thesis("writer", "MOVED", "x").await.1;
    let row = delivery(&client, &webhook, &event, "retrying").await;
    assert_eq!(row["response_status"], 307);
    assert_eq!(receiver.received().iter().map(|received| received.path.as_str()).collect::<Vec<_>>(), ["/hook"]);
}

async fn no_connection_is_a_failure(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let url = receiver.url.clone();
    drop(receiver);
    let webhook = client.webhook(&url, &["thesis.created"]).await;
    let created_at = now_ms();
    let event = client.thesis("writer", "NOBODY", "x").await.1;
    let row = delivery(&client, &webhook, &event, "retrying").await;
    is_due_in_a_minute(&row, created_at);
    assert_eq!(row["response_status"], Value::Null);
}

async fn an_answer_after_five_seconds_is_late(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    receiver.answer_after(200, Duration::from_secs(8));
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    let event = client.thesis("writer", "SLOW", "x").await.1;
    let sent = receiver.delivery_of(&event).await;
    let row = delivery(&client, &webhook, &event, "retrying").await;
    assert_eq!(row["response_status"], Value::Null);
    let latency = row["latency_ms"].as_i64().unwrap();
    assert!((4_900..7_000).contains(&latency), "{latency}");
    assert!(time(&row, "next_attempt_at") - sent.at_ms > 60_000);
}

async fn any_success_will_do(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let webhook = client.webhook(&receiver.url, &["thesis.created"]).await;
    for status in [201, 204, 299] {
        receiver.answer(status);
        let event = client.thesis("writer", "FINE", "x").await.1;
        assert_eq!(delivery(&client, &webhook, &event, "delivered").await["response_status"], status);
    }
}

async fn the_log_can_be_filtered_and_paged(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    receiver.answer(500);
    let types = ["thesis.created", "token.activity"];
    let body = json!({"url": receiver.url, "events": types, "filters": {"token": ["$LOGGED"]}});
    let webhook = client.post("/v1/webhooks", &body).await.ok(201);
    let log = format!("/v1/webhooks/{}/deliveries", text(&webhook, "id"));
    let mut events = Vec::new();
    for number in 0..6 {
        events.push(client.thesis("writer", "LOGGED", &number.to_string()).await.1);
    }
    // The last activity covers the last thesis; then no more events come.
    let all = eventually("all deliveries", SOON, async || {
        let all = client.all(&log).await;
        let newest = all.iter().find(|row| row["event_type"] == "token.activity")?;
        let settled = all.iter().all(|row| ["delivered", "retrying"].contains(&text(row, "status")));
        let event = client.get(&format!("/v1/events/{}", text(newest, "event_id"))).await.ok(200);
        (settled && event["data"]["thesis_count_1h"] == 6).then_some(all)
    })
    .await;
    assert!(all.is_sorted_by(|newer, older| time(newer, "created_at") >= time(older, "created_at")));
    assert_eq!(client.all(&format!("{log}?limit=2")).await, all);
    let retrying = all.iter().find(|row| row["status"] == "retrying").unwrap();
    for (query, field, value) in [
        ("status=retrying".to_owned(), "status", "retrying"),
        ("status=delivered".to_owned(), "status", "delivered"),
        ("status=pending".to_owned(), "status", "pending"),
        ("event_type=thesis.created".to_owned(), "event_type", "thesis.created"),
        ("event_type=token.activity".to_owned(), "event_type", "token.activity"),
        (format!("event_id={}", text(retrying, "event_id")), "event_id", text(retrying, "event_id")),
    ] {
        let found = client.all(&format!("{log}?limit=2&{query}")).await;
        let expected: Vec<Value> = all.iter().filter(|row| row[field] == value).cloned().collect();
        assert_eq!(found, expected, "{query}");
    }
    let theses = client.all(&format!("{log}?event_type=thesis.created")).await;
    let of: HashSet<&str> = theses.iter().map(|row| text(row, "event_id")).collect();
    assert_eq!((theses.len(), of), (6, ids(&events).into_iter().collect()));
    let both = format!("{log}?event_type={}&status=retrying", text(retrying, "event_type"));
    assert_eq!(client.all(&both).await, std::slice::from_ref(retrying));
    assert!(client.all(&format!("{log}?event_id=evt_unknown")).await.is_empty());

    let page = client.get(&format!("{log}?limit=1")).await.ok(200);
    assert_eq!(rows(&page).len(), 1);
    let cursor = text(&page, "next_cursor");
    client.get(&format!("{log}?status=failed&cursor={cursor}")).await.error(400, "INVALID_CURSOR");
    let other = client.webhook(&receiver.url, &["thesis.created"]).await;
    let foreign = format!("/v1/webhooks/{}/deliveries?cursor={cursor}", text(&other, "id"));
    client.get(&foreign).await.error(400, "INVALID_CURSOR");
}

async fn nothing_arrives_after_deletion(service: &Service) {
    let (client, receiver) = (service.test_client().await, Receiver::start().await);
    let gone = client.webhook(&receiver.url.replace("/hook", "/gone"), &["thesis.created"]).await;
    client.webhook(&receiver.url, &["thesis.created"]).await;
    client.delete(&format!("/v1/webhooks/{}", text(&gone, "id"))).await.ok(200);
    for number in 0..3 {
        let event = client.thesis("writer", "AFTER", &number.to_string()).await.1;
        receiver.delivery_of(&event).await;
    }
    assert!(receiver.received().iter().all(|received| received.path == "/hook"));
}

/// Posts a live thesis on a token; gives its event.
async fn live_thesis(service: &Service, client: &Client, on: &str, number: usize) -> Value {
    let (by, on) = (author("u-withdrawn", "withdrawn"), token("solana", on, "WITHDRAWN"));
    let seen = thesis(&format!("{}-{number}", on.address), &by, &on, "x", now_ms());
    let result = service.ingest("live", vec![seen_at(now_ms(), Observed::Thesis(seen))]).await.remove(0);
    client.get(&format!("/v1/events/{}", result.event_id.unwrap())).await.ok(200)
}

async fn withdrawn_live_access_cancels_for_good(service: &Service) {
    let project = service.project().await;
    let client = project.live().await;
    // Live webhooks speak TLS, and this endpoint hangs up: each attempt fails.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/hook", listener.local_addr().unwrap());
    let endpoint = tokio::spawn(async move { while listener.accept().await.is_ok() {} });
    let on = format!("Withdrawn{}", project.id);
    let body = json!({"url": url, "events": ["thesis.created"], "filters": {"token": [on]}});
    let webhook = client.post("/v1/webhooks", &body).await.ok(201);
    let log = format!("/v1/webhooks/{}/deliveries", text(&webhook, "id"));
    let mut before = Vec::new();
    for number in 0..3 {
        let event = live_thesis(service, &client, &on, number).await;
        before.push(delivery(&client, &webhook, &event, "retrying").await);
    }

    project.withdraw().await;
    client.get(&log).await.error(403, "LIVE_ACCESS_NOT_APPROVED");
    project.approve().await;
    // At once, though the second attempts would have been due a minute later.
    let after = client.all(&format!("{log}?status=failed")).await;
    assert_eq!(after, client.all(&log).await);
    assert!(client.all(&format!("{log}?status=retrying")).await.is_empty());
    before.reverse();
    for (before, after) in before.iter_mut().zip(&after) {
        assert!(!before["next_attempt_at"].is_null());
        (before["status"], before["next_attempt_at"]) = (json!("failed"), Value::Null);
        assert_eq!(before, after);
    }
    assert_eq!(after.len(), 3);
    // Events from now on are delivered.
    let event = live_thesis(service, &client, &on, 3).await;
    assert_eq!(delivery(&client, &webhook, &event, "retrying").await["attempt"], 1);
    assert_eq!(client.all(&format!("{log}?status=failed")).await, after);
    endpoint.abort();
}
